"""Environment variables as a script sees them: what it declares, from where the operator or the caller put it (U4)."""

from __future__ import annotations

from collections.abc import Mapping

from prowess.errors import InvalidInput, NotFound, ProwessError
from prowess.secrets.model import SecretOwner, check_name
from prowess.secrets.service import SecretService
from prowess.turns.questions import Call

MAX_VALUE = 32_768
"""characters"""
MAX_WRITTEN = 100


class ScriptVariables:
    """The variables of one run. Nothing of this server's own environment is among them."""

    def __init__(self, given: Mapping[str, str], secrets: SecretService, call: Call) -> None:
        """``given``: what the operator lets scripts see."""
        self._given = given
        self._secrets = secrets
        self._call = call
        self._written: dict[str, str] = {}

    def read(self, name: str) -> str | None:
        """What the run itself has set, else the operator's value, else the skill's own secret slot, else the caller's.

        Null where none is set. Nobody else's slot stands in.
        """
        if name in self._written:
            return self._written[name]
        return self._given[name] if name in self._given else self._secret(name)

    def write(self, name: str, value: object) -> None:
        """Set a variable for this run alone. Raises ``InvalidInput('wrong_type')``."""
        if not isinstance(value, str) or len(value) > MAX_VALUE or "\0" in value:
            raise InvalidInput("wrong_type", field="value", expected="text", got=type(value).__name__)
        if name in self._written or len(self._written) < MAX_WRITTEN:
            self._written[name] = value

    def _secret(self, name: str) -> str | None:
        request = self._call.request
        try:
            check_name(name)
        except InvalidInput:
            return None
        for owner in (SecretOwner("skill", self._call.tool.manifest.id), SecretOwner("user", request.user)):
            try:
                return self._secrets.open(request.tenant, owner, name).get_secret_value()
            except NotFound:
                continue
            except ProwessError as error:
                if error.code == "secret_key_missing":
                    return None
                raise
        return None
