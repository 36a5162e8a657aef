"""Input and output models of script tools: the judgement is ``skills.parameters``', word for word (S4, X2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, GetCoreSchemaHandler, RootModel, create_model
from pydantic_core import PydanticCustomError, core_schema

from prowess.kernel.canonical import compact_json
from prowess.skills.arguments import fits_return, return_schema, settled, settled_object
from prowess.skills.manifest import ParameterSpec, ReturnSpec
from prowess.skills.parameters import compile_parameters, fits


class _Judged:
    """Makes pydantic ask a function about each value instead of judging by itself."""

    def __init__(self, schema: core_schema.CoreSchema) -> None:
        self._schema = schema

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return self._schema


def input_model(name: str, specs: Sequence[ParameterSpec]) -> type[BaseModel]:
    """A model of a tool's arguments. It refuses what is unknown, absent or does not fit, each at its place."""
    by_name = {spec.name: spec for spec in specs}
    fields = {
        spec.name: core_schema.typed_dict_field(
            core_schema.no_info_plain_validator_function(_judge(spec)), required=spec.required
        )
        for spec in specs
    }
    judged: core_schema.CoreSchema = core_schema.no_info_after_validator_function(
        lambda values: settled_object(by_name, values), core_schema.typed_dict_schema(fields, extra_behavior="forbid")
    )
    # What is judged is written as it stands, whatever a validator is called.
    judged["serialization"] = core_schema.plain_serializer_function_ser_schema(lambda value: value)  # type: ignore[index]
    return _model(f"{name} input", judged, lambda: compile_parameters(specs))


def output_model(name: str, returns: ReturnSpec | None) -> type[BaseModel]:
    """A model of what a tool returns."""

    def judge(value: Any) -> Any:
        compact_json(value).encode()  # raises ValueError for what JSON or UTF-8 cannot say
        if not fits_return(returns, value):
            raise PydanticCustomError("return_misfit", "does not fit what the tool is declared to return")
        return value

    judged = core_schema.no_info_plain_validator_function(
        judge, serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value)
    )
    return _model(f"{name} output", judged, lambda: return_schema(returns))


def _judge(spec: ParameterSpec) -> Callable[[Any], Any]:
    def judge(value: Any) -> Any:
        if not fits(spec, value):
            raise PydanticCustomError("parameter_misfit", "does not fit its parameter")
        return settled(spec, value)

    return judge


def _model(name: str, judged: core_schema.CoreSchema, schema: Callable[[], dict[str, Any]]) -> type[BaseModel]:
    compiled = cache(schema)

    def json_schema(_cls: object, *_args: Any, **_more: Any) -> dict[str, Any]:
        return dict(compiled())  # as the manifest compiles to, whatever pydantic would make of it

    members = {"model_json_schema": classmethod(json_schema), "__module__": __name__}
    base = type("_Base", (RootModel[Any],), members)
    return create_model(name, __base__=base, root=(Annotated[Any, _Judged(judged)], ...))
