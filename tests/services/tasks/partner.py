"""An agent that is given work by another server, and leaves its traces in a directory of files."""

import asyncio
import os
from pathlib import Path
from typing import Any, Final

from dragoman.kit import (
    Agent,
    Artifact,
    Completed,
    Content,
    Context,
    Failed,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Rejected,
    SkillHandler,
    SkillSlot,
    skill,
)

OUTSIDE: Final = "PARTNER_DIR"
EVIDENCE: Final = {
    "kind": "signature",
    "sha256": "ab" * 32,
    "uri": "https://agent.example.com/signed.pdf",
    "captured_at": "2026-01-31T12:00:00Z",
}


@skill(id="perform", description="Performs what another server hands over.")
class Perform(SkillHandler):
    async def on_request(self, ctx: Context, content: Content) -> OnRequestResult:
        work: Any = content.data[0]
        name, how = work["input"]["name"], work["input"].get("how", "do")
        times = await asyncio.to_thread(_leave, name)
        if how == "ask":
            return InputRequired("Which colour?", SkillSlot("colour"))
        if how == "reject":
            return Rejected("not for us")
        if how == "break":
            return Failed("the press is broken", "PRESS_BROKEN")
        if how == "break-once" and times == 1:
            return Failed("later", "UPSTREAM_UNAVAILABLE")
        if how == "stay":
            await _stay(ctx, name)
        done = {"did": work["action"], "for": work["envelope"]["matter"]["id"], "evidence": [EVIDENCE, {"kind": "?"}]}
        return Completed(artifacts=[Artifact.from_json("done", done)])

    async def on_input_received(self, ctx: Context, content: Content) -> OnInputResult:
        del ctx
        said: Any = content.data[0]
        return Completed(artifacts=[Artifact.from_json("done", {"colour": said["answer"]})])


async def _stay(ctx: Context, name: str) -> None:
    try:
        while not (Path(os.environ[OUTSIDE]) / f"{name}.go").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        _leave(f"{name}.{'cancelled' if ctx.cancelled else 'stopped'}")
        raise


def _leave(name: str) -> int:
    path = Path(os.environ[OUTSIDE]) / name
    with path.open("a") as file:
        file.write("once\n")
    return len(path.read_text().splitlines())


agent = Agent("partner", "Performs contract work for others.", "1.0.0", skills=[Perform])
