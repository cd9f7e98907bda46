"""Encoding texts with trained weights, beside others that hold the same weights."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from bench.peers import bert
from bench.timing import Result, compare
from bench.work import Bench, stage_of
from cotrunk.data.text import Pieces, join
from cotrunk.learn.evaluate import outputs
from cotrunk.model.initial import initialise
from cotrunk.model.network import Network
from cotrunk.model.rename import from_hugging_face

BATCH = 32
DEVIATION = 1e-5
Encode = Callable[[Tensor, Tensor], Tensor]


class Texts:
    """Single sentences, our network with cls pooling, and `transformers` with its weights."""

    def __init__(self, bench: Bench, *changes: str) -> None:
        stage = stage_of(bench, "encoder.pooling=cls", *changes)
        forward: Any = stage.forward
        self.network: Network = stage.network
        self.view, self.template = forward.views["sst"], forward.template
        corpus = forward.corpora["sst"]
        count = min(len(corpus), 128 if bench.quick else 384)
        self.rows: list[Pieces] = [corpus.pieces(row) for row in range(count)]
        self.ids = [torch.from_numpy(self._joined(row)) for row in self.rows]
        self.bert = bert(stage.network.shape).eval()
        tensors = from_hugging_face(dict(self.bert.state_dict()), self.network.shape, "bert")
        initialise(self.network, tensors, seed=0)

    def _joined(self, row: Pieces) -> np.ndarray:
        return join(self.template, row, self.view)[0].astype(np.int64)

    def ours(self, *tasks: str) -> dict[str, np.ndarray]:
        return outputs(self.network, self.rows, self.view, self.template, tasks or ["sst"])

    def theirs(self, encode: Encode, *, in_order: bool) -> np.ndarray:
        """First vectors through our head, so that both answer the same question."""
        by_length = sorted(range(len(self.ids)), key=lambda i: len(self.ids[i]))
        order = list(range(len(self.ids))) if in_order else by_length
        head: Any = self.network.heads.copy_of("sst")
        found = np.empty((len(order), 5), np.float32)
        with torch.inference_mode():
            for first in range(0, len(order), BATCH):
                chosen = order[first : first + BATCH]
                ids = pad_sequence([self.ids[i] for i in chosen], batch_first=True)
                lengths = torch.tensor([len(self.ids[i]) for i in chosen])
                mask = (torch.arange(ids.shape[1])[None] < lengths[:, None]).long()
                found[chosen] = head.layers[0](encode(ids, mask)).numpy()
        return found

    def torch(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden[:, 0]


def against_transformers(bench: Bench) -> Iterator[Result]:
    texts = Texts(bench)
    _check(texts, texts.torch)
    for name, in_order in [("infer-file-order", True), ("infer-sorted", False)]:
        yield compare(
            name,
            texts.ours,
            lambda in_order=in_order: texts.theirs(texts.torch, in_order=in_order),  # type: ignore[misc]
            rounds=bench.rounds(9),
        )


def against_onnx(bench: Bench) -> Iterator[Result]:
    import onnx  # noqa: F401
    import onnxruntime  # type: ignore[import-untyped]
    from onnxruntime.quantization import quantize_dynamic  # type: ignore[import-untyped]

    texts = Texts(bench)
    with tempfile.TemporaryDirectory() as folder:
        exact, rough = Path(folder) / "exact.onnx", Path(folder) / "rough.onnx"
        _export(texts.bert, exact)
        quantize_dynamic(exact, rough)
        for name, file in [("infer-onnx", exact), ("infer-onnx-int8", rough)]:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            session = onnxruntime.InferenceSession(file, options)

            def encode(ids: Tensor, mask: Tensor, session: Any = session) -> Tensor:
                fed = {"ids": ids.numpy(), "mask": mask.numpy()}
                return torch.from_numpy(session.run(None, fed)[0])

            if file is exact:
                _check(texts, encode)
            yield compare(
                name,
                texts.ours,
                lambda encode=encode: texts.theirs(encode, in_order=False),  # type: ignore[misc]
                rounds=bench.rounds(9),
            )


class _First(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return hidden[:, 0]


def _export(encoder: nn.Module, file: Path) -> None:
    ids = torch.ones(2, 9, dtype=torch.int64)
    free = {0: torch.export.Dim("rows"), 1: torch.export.Dim("longest", max=512)}
    torch.onnx.export(
        _First(encoder).eval(),
        (ids, torch.ones_like(ids)),
        file,
        input_names=["ids", "mask"],
        dynamic_shapes=(free, free),
        dynamo=True,
        verbose=False,
    )


def against_sentence_transformers(bench: Bench) -> Iterator[Result]:
    """The library's own ``encode`` (it sorts) on the same weights; its texts are made of tokens."""
    from sentence_transformers import SentenceTransformer
    from transformers import BertTokenizerFast

    from cotrunk.model.pretrained import find

    texts = Texts(bench)
    tokenizer_file = find("minilm", base=Path.cwd()).tokenizer
    assert tokenizer_file is not None
    tokenizer = BertTokenizerFast(tokenizer_file=str(tokenizer_file))
    sentences = [tokenizer.decode(row[0].astype(np.int64)) for row in texts.rows]
    with tempfile.TemporaryDirectory() as folder:
        texts.bert.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model = SentenceTransformer(folder, device="cpu")

    def peer() -> None:
        model.encode(sentences, batch_size=BATCH, show_progress_bar=False)

    yield compare("infer-sentence-transformers", texts.ours, peer, rounds=bench.rounds(6))


def three_tasks(bench: Bench) -> Iterator[Result]:
    """Three answers about a text beside one, and beside three models' one each."""
    every = ("sst", "para", "sts")
    single = ("tasks.para.text=['sentence1']", "tasks.sts.text=['sentence1']")
    for name, plan in [("S6", "S6"), ("S3-I3", "S3 I3")]:
        texts = Texts(bench, f"sharing.encoder={plan}", *single)
        yield compare(
            f"three-tasks-{name}-of-one",
            lambda texts=texts: texts.ours(*every),  # type: ignore[misc]
            texts.ours,
            rounds=bench.rounds(9),
            meaning="times",
        )
        yield compare(
            f"three-tasks-{name}-three-models",
            lambda texts=texts: texts.ours(*every),  # type: ignore[misc]
            lambda texts=texts: [texts.theirs(texts.torch, in_order=False) for _ in every],  # type: ignore[misc]
            rounds=bench.rounds(6),
        )


def _check(texts: Texts, encode: Encode) -> None:
    apart = np.abs(texts.ours()["sst"] - texts.theirs(encode, in_order=False)).max()
    if apart > DEVIATION:
        raise ValueError(f"the answers differ by {apart:.1e}, more than {DEVIATION}")


FAMILY = {
    "infer-transformers": against_transformers,
    "infer-onnx": against_onnx,
    "infer-sentence-transformers": against_sentence_transformers,
    "three-tasks": three_tasks,
}
