"""The agent SDK: declare an agent, write its skills, test them in three lines, serve them anywhere.

Stateless: `LlmFunction` (one turn, one typed value) and `LlmWorker` (turns and tools until there is one).
Stateful: `Agent` with `@skill` classes, run by a host. `Runtime` is the host in memory; the server is the durable one.
"""

from dragoman.kit._agent import Agent
from dragoman.kit._artifact import Artifact
from dragoman.kit._content import (
    Content,
    ContentLike,
    DataPart,
    FilePart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResponsePart,
)
from dragoman.kit._context import Context, Host
from dragoman.kit._ecosystem import EcosystemAdapter, Session, SessionContext
from dragoman.kit._errors import (
    ContextMismatch,
    InvalidTransition,
    LlmError,
    LlmLimitReached,
    LlmOutputError,
    LlmRefused,
    LlmUnavailable,
    NoModel,
    RemoteAsks,
    RemoteFailed,
    RemoteTimedOut,
    RemoteUnavailable,
    ResourceNotFound,
    SkillNotFound,
    TaskNotFound,
    ToolError,
    ToolNotFound,
)
from dragoman.kit._folder import SkillFolder
from dragoman.kit._function import LlmFunction
from dragoman.kit._lifecycle import TRANSITIONS, TaskState, check_step
from dragoman.kit._llm import Llm, LlmChunk, LlmRequest, LlmResponse, ResponseSchema, TextDelta, ToolSpec, Usage
from dragoman.kit._offering import Offered
from dragoman.kit._openai import OpenAICompatible
from dragoman.kit._ports import (
    LOG_LEVELS,
    Activity,
    Cancellation,
    InMemoryState,
    LogLevel,
    Progress,
    ProgressPort,
    Scope,
    State,
    StatePort,
)
from dragoman.kit._prompt import Prompt, PromptArgument, prompt
from dragoman.kit._providers import llm_from
from dragoman.kit._questions import Folders, Form, Generation, Question
from dragoman.kit._resource import Reading, Resource, resource
from dragoman.kit._results import (
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    OnInputResult,
    OnRequestResult,
    Rejected,
    Reply,
)
from dragoman.kit._routing import AskCaller, CallTool, How, Route, UseSkill, route
from dragoman.kit._runtime import Runtime
from dragoman.kit._skill import Skill, SkillHandler, SkillInfo, skill
from dragoman.kit._slot import SkillSlot
from dragoman.kit._tasks import (
    ActivityChanged,
    ArtifactShown,
    InMemoryTasks,
    Logged,
    ProgressMade,
    StatusChanged,
    TaskError,
    TaskEvent,
    TaskView,
)
from dragoman.kit._thread import Event, Thread, ThreadLike
from dragoman.kit._tool import Annotations, Need, Tool, ToolContext, ToolResult, Toolset, tool
from dragoman.kit._turn import Turn, take_turn
from dragoman.kit._worker import Finished, LlmWorker, ToolFinished, ToolStarted, WorkerEvent

__all__ = [
    "LOG_LEVELS",
    "TRANSITIONS",
    "Activity",
    "ActivityChanged",
    "Agent",
    "Annotations",
    "Artifact",
    "ArtifactShown",
    "AskCaller",
    "AuthRequired",
    "CallTool",
    "Cancellation",
    "Completed",
    "Content",
    "ContentLike",
    "Context",
    "ContextMismatch",
    "DataPart",
    "EcosystemAdapter",
    "Event",
    "Failed",
    "FilePart",
    "Finished",
    "Folders",
    "Form",
    "Generation",
    "Host",
    "How",
    "InMemoryState",
    "InMemoryTasks",
    "InputRequired",
    "InvalidTransition",
    "Llm",
    "LlmChunk",
    "LlmError",
    "LlmFunction",
    "LlmLimitReached",
    "LlmOutputError",
    "LlmRefused",
    "LlmRequest",
    "LlmResponse",
    "LlmUnavailable",
    "LlmWorker",
    "LogLevel",
    "Logged",
    "Need",
    "NoModel",
    "Offered",
    "OnInputResult",
    "OnRequestResult",
    "OpenAICompatible",
    "Part",
    "Progress",
    "ProgressMade",
    "ProgressPort",
    "Prompt",
    "PromptArgument",
    "Question",
    "Reading",
    "Rejected",
    "RemoteAsks",
    "RemoteFailed",
    "RemoteTimedOut",
    "RemoteUnavailable",
    "Reply",
    "Resource",
    "ResourceNotFound",
    "ResponseSchema",
    "Route",
    "Runtime",
    "Scope",
    "Session",
    "SessionContext",
    "Skill",
    "SkillFolder",
    "SkillHandler",
    "SkillInfo",
    "SkillNotFound",
    "SkillSlot",
    "State",
    "StatePort",
    "StatusChanged",
    "TaskError",
    "TaskEvent",
    "TaskNotFound",
    "TaskState",
    "TaskView",
    "TextDelta",
    "TextPart",
    "Thread",
    "ThreadLike",
    "Tool",
    "ToolCallPart",
    "ToolContext",
    "ToolError",
    "ToolFinished",
    "ToolNotFound",
    "ToolResponsePart",
    "ToolResult",
    "ToolSpec",
    "ToolStarted",
    "Toolset",
    "Turn",
    "Usage",
    "UseSkill",
    "WorkerEvent",
    "check_step",
    "llm_from",
    "prompt",
    "resource",
    "route",
    "skill",
    "take_turn",
    "tool",
]
