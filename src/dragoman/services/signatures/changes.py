"""The changes that may follow a signature: further signatures, document timestamps, and the document security store.

Stricter than pyHanko's own policy, which also takes changed form fields, appearances and fonts for harmless.
Imported by the child process alone.
"""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyHanko has few types.

from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.reader import HistoricalResolver
from pyhanko.sign.diff_analysis import (
    CatalogModificationRule,
    DocInfoRule,
    DSSCompareRule,
    FormUpdate,
    FormUpdatingRule,
    MetadataUpdateRule,
    ModificationLevel,
    ObjectStreamRule,
    SigFieldCreationRule,
    SigFieldModificationRule,
    StandardDiffPolicy,
    SuspiciousModification,
    XrefStreamRule,
)
from pyhanko.sign.diff_analysis.form_rules_api import FieldComparisonContext, FieldMDPRule

from dragoman.services.signatures.marks import is_mark

_LTA: Final = ModificationLevel.LTA_UPDATES


class _SignatureFields(FormUpdatingRule):
    """Lets signature fields be added and signed; nothing else of the form may change.

    Resources (`/DR`) and `/NeedAppearances` are compared too: with them a reader draws the same values differently.
    """

    def __init__(self) -> None:
        rules: list[FieldMDPRule] = [
            _MarksInTheirPlace(),
            SigFieldCreationRule(),
            SigFieldModificationRule(allow_in_place_appearance_stream_changes=False),
        ]
        super().__init__(rules, ignored_acroform_keys=frozenset({"/Fields"}))

    def apply(self, old: HistoricalResolver, new: HistoricalResolver) -> Iterable[tuple[ModificationLevel, FormUpdate]]:
        """As pyHanko does, without its leave to replace the form's resources, which belong to no field."""
        for level, update in super().apply(old, new):
            if update.field_name is not None or level <= _LTA:
                yield level, update


class _MarksInTheirPlace(SigFieldCreationRule):
    """Refuses a further signature whose mark is drawn where it could cover what was signed before."""

    def apply(self, context: FieldComparisonContext) -> Iterable[tuple[ModificationLevel, FormUpdate]]:
        """Approve nothing; raise for a mark that is out of place."""
        for name, spec in context.field_specs.items():
            if spec.field_type != "/Sig" or spec.new_field is None:
                continue
            before = spec.old_field
            if before is not None and ("/V" in before or "/AP" not in spec.new_field):
                continue
            for widget in _widgets(spec.new_field):
                if "/Rect" in widget and not is_mark(widget["/Rect"]):
                    raise SuspiciousModification(f"the mark of {name} may cover what was signed before")
        return ()


def _widgets(field: generic.DictionaryObject) -> Iterator[dict[str, Any]]:
    yield cast("dict[str, Any]", field)
    for kid in field.get("/Kids", ()):
        yield cast("dict[str, Any]", kid.get_object())


# New objects that belong to nothing are refused as well: a signed object may refer to one that was not there yet.
POLICY: Final = StandardDiffPolicy(
    global_rules=[
        CatalogModificationRule(),
        DocInfoRule().as_qualified(_LTA),
        XrefStreamRule().as_qualified(_LTA),
        ObjectStreamRule().as_qualified(_LTA),
        DSSCompareRule().as_qualified(_LTA),
        MetadataUpdateRule().as_qualified(_LTA),
    ],
    form_rule=_SignatureFields(),
    ignore_orphaned_objects=False,
)
