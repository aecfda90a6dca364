"""What every section of the settings is, and what several have."""

import re
from fnmatch import translate
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Port = Annotated[int, Field(ge=0, le=65535)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def default(text: str) -> Any:
    """A default in the form in which users write it."""
    return Field(text, validate_default=True)


def pattern_of(topics: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, topics)) if topics else r"(?!)")
