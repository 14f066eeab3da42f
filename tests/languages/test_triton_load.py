"""What launches beside the judge: parameters as the build saw them, and workspace that calls share in turn."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kevolve.devices import cuda_driver
from kevolve.languages.triton.load import Launcher, Loaded, host

KEY = host.Key("kernel", (("*fp32", True), ("i32", False), ("constexpr", 8, "int"), ("fp32", False)), ())
ABOUT = {
    "name": "kernel", "threads": 64, "shared_bytes": 128, "hidden": 2, "scratch_bytes": 0,
    "key": ["kernel", [list(argument) for argument in KEY.arguments], []],
}  # fmt: skip


class Driver:
    """Writes down what it is asked for."""

    def __init__(self):
        self.launched, self.allocated, self.cleared = [], [], []
        self.launch_kernel = lambda *arguments: self.launched.append(arguments) or 0
        self.library = SimpleNamespace(cuLaunchKernel=self.launch_kernel)

    def load(self, cubin):
        return 1

    def function(self, module, name, shared_bytes):
        return 77

    def allocate(self, size):
        self.allocated.append(size)
        return 1 << 30 | len(self.allocated) << 40

    def clear(self, address, size):
        self.cleared.append((address, size))


@pytest.fixture
def launcher():
    made = Launcher(Driver(), workspace_bytes=1 << 30)
    made.kernels[KEY] = Loaded(made.driver, cuda_driver, b"cubin", ABOUT)
    return made


def test_parameters_go_to_the_kernel_in_order_and_the_hidden_ones_follow(launcher):
    launcher.launch(KEY, (3, 2, 1), [4096, -7, 0.5])
    ((function, x, y, z, threads, _, _, shared, _, pointers, _),) = launcher.driver.launched
    assert (function, x, y, z, threads, shared) == (77, 3, 2, 1, 64, 128)
    assert [box.value for box in pointers.boxes] == [4096, -7, 0.5, 0, 0]


def test_a_specialisation_that_was_not_built_is_refused_by_name(launcher):
    with pytest.raises(host.LaunchError, match="kernel was launched with arguments that the build did not see"):
        launcher.launch(KEY._replace(options=(("num_warps", 8),)), (1, 1, 1), [])


def test_workspace_of_a_call_does_not_overlap_and_the_next_call_has_it_again(launcher):
    launcher.begin()
    first, second = launcher.workspace(1000, is_zero=False), launcher.workspace(200 << 20, is_zero=True)
    assert second >= first + 1000 or second + (200 << 20) <= first
    assert launcher.driver.cleared == [(second, 200 << 20)]
    launcher.begin()
    assert launcher.workspace(1000, is_zero=False) == first
    assert launcher.workspace(200 << 20, is_zero=False) == second
    assert len(launcher.driver.allocated) == 2


def test_more_workspace_than_a_program_may_have_is_refused(launcher):
    launcher.begin()
    with pytest.raises(host.LaunchError, match="more workspace"):
        launcher.workspace(2 << 30, is_zero=False)
