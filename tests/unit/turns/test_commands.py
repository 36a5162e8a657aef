"""Words that steer (W8, W9, C21): tight, in both languages."""

from __future__ import annotations

import time

import pytest

from prowess.kernel.text import fold
from prowess.turns.commands import command_names, control_of_command, control_of_sentence
from prowess.turns.selectors import parse_command

CANCEL = """
取消当前规划
停止这次目标规划
取消当前规划。
请取消当前的规划吧
取消这个计划
终止这次任务
放弃当前任务
退出规划
我想取消这个长期目标规划
把这个规划取消掉
算了，取消当前规划
结束当前的流程
帮我停止这次规划
cancel the plan
Cancel the current plan.
please cancel this session
stop the current workflow
Stop this planning session!
abort the task
quit the plan
Can you cancel my plan please
ok, let's stop the planning
end this session
drop the current goal planning
ＣＡＮＣＥＬ the plan
""".strip().splitlines()
PAUSE = """
暂停当前规划
先暂停这个计划
把这个规划先放一放
搁置当前任务
pause the plan
Please pause this session for now
put the plan on hold
park the current task
""".strip().splitlines()
RESUME = """
继续刚才的规划
恢复之前的任务
回到刚才的计划
接着刚才的规划
resume the plan
continue the planning
go back to the plan
Return to my plan, please
""".strip().splitlines()
NEITHER = """
取消周三的会议
不要取消当前规划
怎么取消当前规划？
我的计划是每天跑步
停止喝咖啡
我想取消健身房的会员
放弃
停
算了
继续
好的继续
计划取消了很多次航班
cancel my gym membership
cancel
stop
continue
I don't want to cancel the plan
how do I cancel the plan?
Should we stop the plan because of the rain?
my plan is to stop smoking
the plan was cancelled by my boss
end of the planning year
resume: 5 years of python
pause
stop the plan and delete everything
""".strip().splitlines()


@pytest.mark.parametrize("sentence", CANCEL)
def test_w8_sentences_that_cancel(sentence: str) -> None:
    assert control_of_sentence(sentence) == "cancel"


@pytest.mark.parametrize("sentence", PAUSE)
def test_w9_sentences_that_pause(sentence: str) -> None:
    assert control_of_sentence(sentence) == "pause"


@pytest.mark.parametrize("sentence", RESUME)
def test_w9_sentences_that_resume(sentence: str) -> None:
    assert control_of_sentence(sentence) == "resume"


@pytest.mark.parametrize("sentence", NEITHER)
def test_w8_sentences_that_say_something_else(sentence: str) -> None:
    assert control_of_sentence(sentence) is None


@pytest.mark.parametrize(
    ("command", "control"),
    [
        ("/cancel-skill", "cancel"),
        ("/cancel-workflow", "cancel"),
        ("/cancel_skill", "cancel"),
        ("/Cancel-Skill now please", "cancel"),
        ("/cancel-skill\u3000", "cancel"),
        ("/pause-skill", "pause"),
        ("/pause-workflow", "pause"),
        ("/resume-skill", "resume"),
        ("/resume-workflow", "resume"),
        ("/help", "help"),
        ("/cancel", None),
        ("/cancel-skills", None),
        ("/skill help", None),
    ],
)
def test_w8_slash_commands(command: str, control: str | None) -> None:
    assert control_of_command(parse_command(command)) == control


def test_c21_the_command_steers_and_the_skill_keeps_its_own_road() -> None:
    for name in command_names():
        assert control_of_command(parse_command(f"/{name}")) is not None
        assert control_of_command(parse_command(f"/skill {name}")) is None
    assert control_of_command(None) is None


@pytest.mark.parametrize("piece", ["请", " ", "please ", "the ", "，", "刚才的", "吧", "now ", "please, ", "current "])
def test_w8_no_sentence_takes_long_to_judge(piece: str) -> None:
    started = time.process_time()
    for text in (piece * (80 // len(fold(piece))), "cancel " + piece * 9, "取消" + piece * 20, piece * 10_000):
        control_of_sentence(text)
    assert time.process_time() - started < 0.5
