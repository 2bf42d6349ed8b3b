"""Lets torchvision be imported beside a CPU build of torch: its PyPI wheel, made for CUDA, does not load its operators
there, and then fails to describe two that do not exist. Nothing here calls them.
"""

import torch

for name in ("nms", "qnms"):
    torch.library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")
