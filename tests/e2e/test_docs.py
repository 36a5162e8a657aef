"""Every Python example of the documents runs, in the order it stands on its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "README.zh.md", "docs/skills.md")
_FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _FENCE.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    # The second example of a README goes on with the app of the first, after its block closed it.
    reopened = 'app = prowess.open("sqlite:///my.db")\n'
    names: dict[str, object] = {}
    for index, block in enumerate(blocks):
        exec(compile((reopened if index else "") + block, f"{page}#{index + 1}", "exec"), names)
    if page.startswith("README"):
        result = names["result"]
        assert ("pour-over" if page == "README.md" else "手冲") in result.reply  # type: ignore[attr-defined]
