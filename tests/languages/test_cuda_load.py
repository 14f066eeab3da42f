"""What launches a CUDA C++ program beside the judge: the built kernels of a variant, with parameters that fit."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
from cuda_programs import SUM, built, needs_nvrtc

from kevolve.devices import cuda_driver
from kevolve.judge.sandbox.tiers import find_tier
from kevolve.languages.cuda.load import Program, host, value_of
from kevolve.languages.language import Built
from kevolve.languages.triton.build import VARIANT

needs_nvrtc()


class Driver:
    """Writes down what it is asked for."""

    def __init__(self):
        self.launched, self.loaded, self.allowed, self.cleared = [], [], {}, []
        self.library = SimpleNamespace(cuLaunchKernel=lambda *given: self.launch(*given))

    def launch(self, function, *rest):
        values = [ctypes.cast(pointer, ctypes.POINTER(ctypes.c_uint64))[0] for pointer in rest[8]]
        self.launched.append((function, rest[:7], values))
        return 0

    def load(self, cubin):
        self.loaded.append(cubin)
        return len(self.loaded)

    def function(self, module, name, shared_bytes):
        self.allowed[name] = shared_bytes
        return module * 1000 + len(self.allowed)

    def resources(self, function):
        return {"registers": 30 + function % 7, "local_bytes": 0}

    def allocate(self, size):
        return 1 << 40

    def clear(self, address, size):
        self.cleared.append((address, size))


@pytest.fixture
def loaded(monkeypatch):
    def load(source: str, *workloads: str, workspace_bytes: int = 1 << 30):
        program = built(source, monkeypatch, *workloads)
        assert isinstance(program, Built), program
        driver = Driver()
        return Program(program.binaries[VARIANT], "jagged_sum", driver, cuda_driver, workspace_bytes), driver

    return load


def call(dtype: str, index: str, batch: int = 1024, dim: int = 130):
    tensors = [[1 << 33, [9000, dim], dtype], [1 << 34, [batch + 1], index], [1 << 35, [batch, dim], dtype]]
    return [*tensors, batch, 9000, dim]


def test_a_call_launches_the_kernel_of_its_variant_with_what_it_was_given(loaded):
    program, driver = loaded(SUM, "main", "main_bfloat16")
    program.bind(call("float32", "int64"))()
    program.bind(call("bfloat16", "int32"))()
    first, second = driver.launched
    assert first[0] != second[0]
    assert first[1] == second[1] == (1024, 3, 1, 64, 4, 1, 0)
    assert first[2] == [1 << 33, 1 << 34, 1 << 35, 130]
    assert program.resources()["registers"] >= 30


def test_a_variant_that_was_not_built_is_refused(loaded):
    program, _ = loaded(SUM, "main")
    with pytest.raises(host.LaunchError, match="not built for float16-int64"):
        program.bind(call("float16", "int64"))


def test_a_kernel_with_much_shared_memory_is_allowed_it(loaded):
    source = SUM.replace("grid, block>>>", "grid, block, 100000>>>")
    _, driver = loaded(source, "main")
    assert list(driver.allowed.values()) == [232448 - 1024]


def test_workspace_beyond_the_limit_is_an_error_of_the_program(loaded):
    source = SUM.replace("    dim3 grid", "    float *w = workspace<float>(1ll << 32);\n    dim3 grid")
    program, _ = loaded(source, "main")
    with pytest.raises(host.LaunchError, match="more workspace"):
        program.bind(call("float32", "int64"))()


def test_zeros_are_written_by_the_device_before_the_launch(loaded):
    program, driver = loaded(SUM.replace("    dim3 grid", "    zero(out, batch * dim);\n    dim3 grid"), "main")
    program.bind(call("float32", "int64"))()
    assert driver.cleared == [(1 << 35, 1024 * 130 * 4)]


def test_the_sandbox_has_every_file_that_is_read_beside_the_program():
    pytest.importorskip("triton", reason="the kernel that wakes the device up is Triton's")
    from kevolve.judge.cuda.server import fork_server

    server = fork_server(find_tier(), "cuda", "sm_90", {}, 1 << 30)
    assert server.alive()
    server.close()


def test_a_number_that_its_parameter_cannot_hold_is_an_error_not_another_number():
    assert value_of("i32", -7, "k") == -7
    assert value_of("i32", 2**32 - 1, "k") == 2**32 - 1
    assert value_of("fp32", 3, "k") == 3.0
    assert value_of("u64", host.Pointer(4096, 4), "k") == 4096
    with pytest.raises(host.LaunchError, match="its parameter has 32 bits"):
        value_of("i32", 2**32, "k")
