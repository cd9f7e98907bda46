"""Inference, compared with other libraries that have the same weights."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bench.peers import OUTPUTS, bert
from bench.timing import Result, compare
from bench.work import Bench, stage_of
from cotrunk.data.batches.text import join
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.infer.batching import outputs, row_tokens
from cotrunk.infer.int8 import to_int8
from cotrunk.kinds.rows import LoadedRows, TokenIds
from cotrunk.model.encoder.shape import Shape
from cotrunk.model.sharing.network import Network
from cotrunk.model.weights.pretrained import find, load_tokenizer, to_hugging_face

BATCH = 32
DEVIATION = 1e-5
Encode = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Padded ids, attention mask, segments -> pooled vectors."""


class Texts:
    """A task's rows, our network, and a `transformers` model with its weights."""

    def __init__(
        self, bench: Bench, *changes: str, task: str = "sst", pooling: str = "cls"
    ) -> None:
        stage = stage_of(bench, f"encoder.pooling={pooling}", *changes)
        self.pooling = pooling
        forward: Any = stage.forward
        self.network: Network = stage.network
        self.task, self.pair_format, self.template = (
            task,
            forward.pair_formats[task],
            forward.template,
        )
        corpus = forward.corpora[task]
        count = min(len(corpus), 128 if bench.quick else 256)
        self.rows: list[TokenIds] = [corpus.pieces(row) for row in range(count)]
        self.joined = [
            [
                torch.from_numpy(part.astype(np.int64))
                for part in join(self.template, row, self.pair_format)
            ]
            for row in self.rows
        ]
        self.bert = bert(stage.network.shape).eval()
        tensors = find("minilm", base=Path.cwd()).tensors
        encoder = {n: tensor for n, tensor in tensors.items() if not n.startswith("pooler.")}
        self.bert.load_state_dict(to_hugging_face(encoder, self.network.shape))

    def ours(self, *tasks: str) -> dict[str, np.ndarray]:
        return self.answer(self.rows, tasks or [self.task])

    def answer(self, rows: list[TokenIds], tasks: Sequence[str]) -> dict[str, np.ndarray]:
        tokens = row_tokens(rows, self.pair_format, self.template)
        load = LoadedRows.without_labels(rows).select
        return outputs(self.network, load, tokens, self.pair_format, self.template, tasks)

    def theirs(self, encode: Encode, *, in_order: bool) -> np.ndarray:
        """The peer's pooled vectors through our head, so that outputs are comparable."""
        by_length = sorted(range(len(self.rows)), key=lambda i: len(self.joined[i][0]))
        order = list(range(len(self.rows))) if in_order else by_length
        head: Any = self.network.head_of[self.task]
        found = np.empty((len(order), OUTPUTS[self.task]), np.float32)
        with torch.inference_mode():
            for first in range(0, len(order), BATCH):
                chosen = order[first : first + BATCH]
                ids, segments = (
                    pad_sequence([self.joined[i][part] for i in chosen], batch_first=True)
                    for part in range(2)
                )
                lengths = torch.tensor([len(self.joined[i][0]) for i in chosen])
                mask = (torch.arange(ids.shape[1])[None] < lengths[:, None]).long()
                found[chosen] = head.layers[0](encode(ids, mask, segments)).numpy()
        return found

    def torch(self, ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        found = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments)
        hidden: Tensor = found.last_hidden_state
        if self.pooling == "cls":
            return hidden[:, 0]
        real = mask[:, :, None].to(hidden.dtype)
        return (hidden * real).sum(1) / real.sum(1)


def against_transformers(bench: Bench) -> Iterator[Result]:
    yield from _three_files(bench, "cls", suffix="")


def against_transformers_by_mean(bench: Bench) -> Iterator[Result]:
    yield from _three_files(bench, "mean", suffix="-mean")


def _three_files(bench: Bench, pooling: str, *, suffix: str) -> Iterator[Result]:
    """The same number of rows of each of the three tasks, one task after the other."""
    every = [Texts(bench, task=task, pooling=pooling) for task in OUTPUTS]
    for texts in every:
        _check(texts, texts.torch)
    for name, in_order in [("infer-file-order", True), ("infer-sorted", False)]:
        yield compare(
            name + suffix,
            lambda: [texts.ours() for texts in every],
            lambda in_order=in_order: [  # type: ignore[misc]
                texts.theirs(texts.torch, in_order=in_order) for texts in every
            ],
            rounds=bench.rounds(15),
        )


def against_onnx(bench: Bench) -> Iterator[Result]:
    texts = Texts(bench)
    exact, rough = _onnx(texts.bert, texts.network.shape)
    _check(texts, exact)
    for name, encode in [("infer-onnx", exact), ("infer-onnx-int8", rough)]:
        yield compare(
            name,
            texts.ours,
            lambda encode=encode: texts.theirs(encode, in_order=False),  # type: ignore[misc]
            rounds=bench.rounds(6),
        )


def int8_against_transformers(bench: Bench) -> Iterator[Result]:
    texts = Texts(bench)
    to_int8(texts.network)
    yield compare(
        "infer-int8",
        texts.ours,
        lambda: texts.theirs(texts.torch, in_order=False),
        rounds=bench.rounds(6),
    )


def int8_against_onnx(bench: Bench) -> Iterator[Result]:
    """The speed of both, and each one's deviation from float32 outputs."""
    texts = Texts(bench)
    _, rough = _onnx(texts.bert, texts.network.shape)
    exact = texts.ours()["sst"]
    to_int8(texts.network)

    def peer() -> np.ndarray:
        return texts.theirs(rough, in_order=False)

    rounds = bench.rounds(6)
    yield compare("infer-int8-against-onnx-int8", texts.ours, peer, rounds=rounds)
    mine, other = _deviation(texts.ours()["sst"], exact), _deviation(peer(), exact)
    ratio, unit = other / mine, "of the spread"
    yield Result("infer-int8-deviation", mine, other, ratio, low=ratio, high=ratio, unit=unit)


def _deviation(rough: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.square(rough - exact).mean()) / (exact - exact.mean(0)).std())


def _onnx(encoder: nn.Module, shape: Shape) -> tuple[Encode, Encode]:
    """ONNX Runtime with the encoder's weights: in float32, and in int8.

    Its BERT optimizer recognises the graph of eager attention from the older exporter; this was the
    fastest of six variants.
    """
    import onnx
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.transformers.optimizer import optimize_model

    with tempfile.TemporaryDirectory() as folder:
        plain, exact, rough = (
            Path(folder) / f"{name}.onnx" for name in ("plain", "exact", "rough")
        )
        _export(encoder, plain)
        fused = optimize_model(
            str(plain), model_type="bert", num_heads=shape.heads, hidden_size=shape.width
        )
        if fused.get_fused_operator_statistics()["Attention"] != shape.layers:
            raise RuntimeError("ONNX Runtime's optimizer did not fuse the attention")
        fused.save_model_to_file(str(exact))
        # AVX2 without VNNI: 8-bit weights would overflow.
        quantize_dynamic(
            exact,
            rough,
            per_channel=True,
            reduce_range=True,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        return _session(exact), _session(rough)


def _session(file: Path) -> Encode:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(file, options)

    def encode(ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        fed = {"ids": ids.numpy(), "mask": mask.numpy(), "segments": segments.numpy()}
        return torch.from_numpy(session.run(None, fed)[0])

    return encode


class _First(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor, segments: Tensor) -> Tensor:
        found = self.encoder(input_ids=ids, attention_mask=mask, token_type_ids=segments)
        hidden: Tensor = found.last_hidden_state
        return hidden[:, 0]


def _export(encoder: nn.Module, file: Path) -> None:
    plain: Any = deepcopy(encoder)
    plain.set_attn_implementation("eager")
    ids = torch.ones(2, 9, dtype=torch.int64)
    names = ["ids", "mask", "segments"]
    torch.onnx.export(
        _First(plain).eval(),
        (ids, torch.ones_like(ids), torch.zeros_like(ids)),
        file,
        input_names=names,
        dynamic_axes={name: {0: "rows", 1: "longest"} for name in names},
        dynamo=False,
        opset_version=17,
    )


def against_sentence_transformers(bench: Bench) -> Iterator[Result]:
    """The library's ``encode`` (which sorts by length), from text to mean vectors."""
    from sentence_transformers import SentenceTransformer
    from transformers import BertTokenizerFast

    texts = Texts(bench, pooling="mean")
    pretrained = find("minilm", base=Path.cwd())
    mine = load_tokenizer(pretrained)
    other = BertTokenizerFast(tokenizer_file=str(pretrained.tokenizer))
    sentences = [mine.decode(row[0].tolist()) for row in texts.rows]
    head: Any = texts.network.head_of[texts.task]
    with tempfile.TemporaryDirectory() as folder:
        texts.bert.save_pretrained(folder)
        other.save_pretrained(folder)
        model = SentenceTransformer(folder, device="cpu")

    def ours() -> np.ndarray:
        rows: list[TokenIds] = [(np.array(ids),) for ids in Tokeniser(mine)(sentences)]
        return texts.answer(rows, [texts.task])[texts.task]

    @torch.inference_mode()
    def peer() -> np.ndarray:
        vectors = model.encode(
            sentences, batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True
        )
        found: np.ndarray = head.layers[0](vectors).numpy()
        return found

    _refuse_deviation(ours(), peer())
    yield compare("infer-sentence-transformers", ours, peer, rounds=bench.rounds(6))


def three_tasks(bench: Bench) -> Iterator[Result]:
    """Three tasks on a text, compared with one task and with three models."""
    every = ("sst", "para", "sts")
    single = ("tasks.para.text=['sentence1']", "tasks.sts.text=['sentence1']")
    for name, plan in [("S6", "S6"), ("S3-I3", "S3 I3")]:
        texts = Texts(bench, f"sharing.encoder={plan}", *single)
        yield compare(
            f"three-tasks-{name}-of-one",
            lambda texts=texts: texts.ours(*every),  # type: ignore[misc]
            texts.ours,
            rounds=bench.rounds(6),
            meaning="times",
        )
        yield compare(
            f"three-tasks-{name}-three-models",
            lambda texts=texts: texts.ours(*every),  # type: ignore[misc]
            lambda texts=texts: [texts.theirs(texts.torch, in_order=False) for _ in every],  # type: ignore[misc]
            rounds=bench.rounds(6),
        )


def _check(texts: Texts, encode: Encode) -> None:
    _refuse_deviation(texts.ours()[texts.task], texts.theirs(encode, in_order=False))


def _refuse_deviation(ours: np.ndarray, peer: np.ndarray) -> None:
    apart = np.abs(ours - peer).max()
    if apart > DEVIATION:
        raise ValueError(f"outputs differ by {apart:.1e}, more than {DEVIATION}")


FAMILY = {
    "infer-transformers": against_transformers,
    "infer-transformers-mean": against_transformers_by_mean,
    "infer-onnx": against_onnx,
    "infer-int8": int8_against_transformers,
    "infer-int8-against-onnx-int8": int8_against_onnx,
    "infer-sentence-transformers": against_sentence_transformers,
    "three-tasks": three_tasks,
}
