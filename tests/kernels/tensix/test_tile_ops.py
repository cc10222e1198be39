"""The table of tile ops: every call exists in the kernel API, every op is executed alike by both witnesses."""

from __future__ import annotations

import pytest

from optimizer.kernels.tensix.api_profiles import PROFILES
from optimizer.kernels.tensix.executor.header import signature, signatures
from optimizer.kernels.tensix.executor.semantics import ELEMENTWISE, WHOLE_TILE
from optimizer.kernels.tensix.tile_ops import TILE_OPS, Form, Place, TileOp

FORMS = [pytest.param(op, form, id=f"{op.name}-{n}") for op in TILE_OPS.values() for n, form in enumerate(op.forms)]


@pytest.mark.parametrize("api", sorted(PROFILES))
@pytest.mark.parametrize(("op", "form"), FORMS)
def test_calls_have_a_signature_that_takes_their_arguments(op: TileOp, form: Form, api: str) -> None:
    for call in (form.init, form.call):
        renamed = PROFILES[api].rename(call, form)
        found = signature(call, renamed, PROFILES[api])
        required = [arg for arg in found.args if "=" not in arg]
        assert len(required) <= len(renamed.args) <= len(found.args)
        assert len(renamed.template) <= len(found.template_names)


@pytest.mark.parametrize(("op", "form"), FORMS)
def test_forms_place_every_operand_and_name_what_they_overwrite(op: TileOp, form: Form) -> None:
    assert len(form.places) == op.arity
    assert form.in_place is None or form.places[form.in_place] is Place.DST
    assert not (form.accumulates and form.dst_operands), "an op that adds to its slot reads circular buffers only"


def test_every_op_has_a_meaning_in_cpp_of_its_own() -> None:
    special = {name for name, op in TILE_OPS.items() if op.accumulates}
    assert set(TILE_OPS) == set(ELEMENTWISE) | set(WHOLE_TILE) | special


def test_the_excerpt_of_the_api_holds_only_what_is_called() -> None:
    called = {c.function for op in TILE_OPS.values() for f in op.forms for c in (f.init, f.call)}
    common = {"pack_tile", "pack_block", "reduce_uninit", "compute_kernel_hw_startup", "init_sfpu"}
    common |= {"reconfig_data_format", "pack_reconfig_data_format"}
    assert called <= set(signatures()) <= called | common
