"""Host memory that a GPU may copy from and to by itself: pages that the system never moves.

Memory is taken first and then registered, page by page as it is; torch's own allocator of pinned
memory would round a pool up to a power of two.
"""

import weakref

import torch


def pin(tensor: torch.Tensor) -> None:
    """Pin the memory behind `tensor` for as long as the tensor lives. Raises `RuntimeError` where
    the system or CUDA refuses."""
    assert tensor.device.type == "cpu"
    storage = tensor.untyped_storage()
    register = torch.cuda.cudart().cudaHostRegister  # type: ignore[no-untyped-call]
    torch.cuda.check_error(register(storage.data_ptr(), storage.nbytes(), 0))
    # What is called holds the storage, so the memory outlives its registration.
    weakref.finalize(tensor, _unpin, storage)


def _unpin(storage: torch.UntypedStorage) -> None:
    unregister = torch.cuda.cudart().cudaHostUnregister  # type: ignore[no-untyped-call]
    unregister(storage.data_ptr())
