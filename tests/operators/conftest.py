import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Small tensors on a shared machine: a second thread would mostly wait for its core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
