"""The summary of a result for a person: before -> after, what failed, what is unsupported."""

from __future__ import annotations

from optimizer.cli.tables import pairs, table
from optimizer.wording.plan import Document, before_after, figures, notices, plan_text
from optimizer.wording.units import change_text

__all__ = ["Document", "change_text", "plan_text", "summary_text"]


def summary_text(document: Document, name: str) -> str:
    """Several lines under the name a person knows the model by; every figure is the document's own."""
    summary = document["summary"]
    title = f"{name} on {document['device']['name']}: {plan_text(summary)}"
    compared = table(("", "all in DRAM", "this plan", "change"), before_after(summary))
    seconds = ("seconds", f"{sum(document['timings']['stages_s'].values()):.1f}")
    return "\n\n".join([title, compared, pairs([*figures(document), *notices(document), seconds])])
