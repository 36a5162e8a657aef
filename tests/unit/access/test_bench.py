"""The shape of ``prowess bench gate``, with tiny numbers; its speed is for the bench itself to say."""

from __future__ import annotations

from prowess.cli import system


def test_the_gates_bench_measures_every_side_at_every_size() -> None:
    found = system._measure(system._benchmarks() / "gate.py", ["5", "20", "40"])
    assert found["name"] == "gate"
    for size in ("20", "40"):
        for figure in (
            "live_us",
            "live_own_transaction_us",
            "decide_us",
            "explained_us",
            "frozen_us",
            "frozen_first_us",
            "bytes_per_grant",
        ):
            assert found["figures"][f"{figure}_{size}"] > 0
        assert found["peer"][f"cedar_us_{size}"] > 0
        assert found["peer"][f"casbin_us_{size}"] > 0
    assert found["figures"]["live_growth"] > 0
    assert set(found["targets"]) == {
        "peer_over_live",
        "peer_over_decide",
        "live_growth",
        "explained_over_decide",
        "frozen_us",
        "bytes_per_grant",
    }
    assert found["ratio"] > 0
