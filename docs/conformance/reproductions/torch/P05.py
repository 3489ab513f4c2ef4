# What was exported changes its shape and strides with the tensor, as the capsule points into the live one.
import torch

t = torch.arange(6.0).reshape(2, 3)
capsule = t.__dlpack__()
t.t_()
assert torch.from_dlpack(capsule).shape == (2, 3), "an export must keep the shape that it was made with"
