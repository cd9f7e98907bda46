"""Several text tasks, one shared trunk: multitask fine-tuning of BERT-family encoders."""

__version__ = "0.1.0"
