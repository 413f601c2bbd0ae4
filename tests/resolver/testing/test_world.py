"""The simulated world for authors of schemes: a peer, the faults of its connection, and virtual time."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any, get_args

import pytest

import resolver
from resolver.loops import running
from resolver.testing.world import Fault, Hung, Killed, LoopName, Schedule, World, WorldNetwork
from tests.resolver.testing.example import CONTENT, serve_http

URL = "http://one.example/object"

_held: list[asyncio.Task[None]] = []


@pytest.fixture(params=get_args(LoopName))
def loop(request: pytest.FixtureRequest) -> Any:
    return request.param


def make_world(folder: Path, loop: LoopName, *faults: Fault) -> World:
    world = World(str(folder), Schedule(1, faults), loop)
    world.network.name("one.example", "93.184.216.1", "93.184.216.2")
    world.network.listen("one.example", 80, serve_http)
    return world


def save(world: World, **settings: Any) -> resolver.Saved | None:
    async def main() -> resolver.Saved:
        return await resolver.save(URL, os.path.join(world.path, "object"), **settings)

    return world.live(main)


def test_world_delivers_object_of_peer(loop: LoopName, tmp_path: Path) -> None:
    world = make_world(tmp_path, loop)
    saved = save(world)
    assert saved is not None
    assert (Path(world.path) / "object").read_bytes() == CONTENT
    assert (saved.peer, world.left) == ("93.184.216.1", [])


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault("refuse", 1), resolver.Unreachable),
        (Fault("blackhole", 1), resolver.TimedOut),
        (Fault("unnamed", 1), resolver.Unreachable),
        (Fault("cut", 1, 500), resolver.Truncated),
        (Fault("reset", 1, 500), resolver.Truncated),
        (Fault("hang", 1, 500), resolver.TimedOut),
        (Fault("ENOSPC", 2), resolver.LocalError),
        (Fault("EIO", 3), resolver.LocalError),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_world_fault_is_error_and_leaves_no_file(
    loop: LoopName, fault: Fault, error: type[Exception], tmp_path: Path
) -> None:
    world = make_world(tmp_path, loop, fault)
    with pytest.raises(error):
        save(world, patience=resolver.RetryPolicy(tries=1))
    assert not (Path(world.path) / "object").exists()
    assert world.left == []


def test_world_moved_host_is_reached_at_new_address(loop: LoopName, tmp_path: Path) -> None:
    saved = save(make_world(tmp_path, loop, Fault("moved", 1)))
    assert saved is not None
    assert saved.peer == "93.184.216.2"


def test_world_slow_peer_takes_only_virtual_time(loop: LoopName, tmp_path: Path) -> None:
    saved = save(make_world(tmp_path, loop, Fault("drip", 1, 500)), limits=resolver.Limits(idle=30))
    assert saved is not None
    assert saved.elapsed >= 60


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_world_killed_life_has_no_result_and_next_life_completes(
    loop: LoopName, kind: Any, tmp_path: Path
) -> None:
    world = make_world(tmp_path, loop, Fault(kind, 6))
    assert save(world) is None
    assert (world.was_killed, world.lost_power) == (True, kind == "power")
    world.calm()
    assert save(world, exists="resume") is not None
    assert os.listdir(world.path) == ["object"]
    assert (Path(world.path) / "object").read_bytes() == CONTENT


def test_world_life_without_end_is_reported(loop: LoopName, tmp_path: Path) -> None:
    with pytest.raises(Hung):
        make_world(tmp_path, loop).live(lambda: running().sleep_forever())


def test_world_error_of_peer_is_recorded(loop: LoopName, tmp_path: Path) -> None:
    async def fail(_: Any) -> None:
        raise OSError(errno.EPERM, "the peer has a fault")

    world = make_world(tmp_path, loop)
    world.network.listen("one.example", 80, fail)
    with pytest.raises(resolver.ResolveError):
        save(world, patience=resolver.RetryPolicy(tries=1))
    assert [type(each) for each in world.network.problems] == [PermissionError]
    assert isinstance(world.network, WorldNetwork)


def test_world_task_that_still_runs_is_left(tmp_path: Path) -> None:
    async def forget() -> None:
        await asyncio.sleep(1_000)

    async def main() -> None:
        _held.append(asyncio.create_task(forget()))

    world = World(str(tmp_path), Schedule(1), "asyncio")
    world.live(main)
    assert [each.rpartition(".")[2] for each in world.left] == ["forget"]
    assert _held.pop().cancelled()


def test_world_error_that_no_task_retrieves_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "no number")
        await asyncio.sleep(1)

    world = World(str(tmp_path), Schedule(1), "asyncio")
    world.live(main)
    assert [each.startswith("Exception in callback int") for each in world.left] == [True]


def test_disk_loss_of_power_empties_file_renamed_before_its_sync(tmp_path: Path) -> None:
    """The model must show a file that gets its final name before its bytes are synced."""
    left = set()
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = World(str(folder), Schedule(seed, (Fault("power", 4),)))
        with world.begun():
            fd = world.disk.open(os.path.join(world.path, "new"), os.O_WRONLY | os.O_CREAT)
            world.disk.write(fd, CONTENT)
            world.disk.replace(os.path.join(world.path, "new"), os.path.join(world.path, "final"))
            with pytest.raises(Killed):
                world.disk.fsync(fd)
        final = Path(world.path) / "final"
        left.add(final.stat().st_size if final.exists() else None)
    assert {0, len(CONTENT), None} <= left
