"""Lets torchvision be imported beside a CPU build of torch: its PyPI wheel, made for CUDA, does not load its operators
there, and then fails to describe two that do not exist. Nothing here calls them.
"""

import torch

for operator in (
    "nms(Tensor boxes, Tensor scores, float threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
):
    torch.library.define("torchvision::" + operator.split("(")[0], "(" + operator.split("(", 1)[1])
