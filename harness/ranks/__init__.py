"""Tensor-parallel ranks as processes of their own, over torch.distributed."""
