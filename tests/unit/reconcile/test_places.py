"""What is found in each situation, from all that is said of it: what cells spare the look at is looked at here."""

import pytest

from reconcile.places import against_deadline, for_nobody, judged, places, untimely
from reconcile.testimony import first_id
from reconcile.times import mistimed
from tests.reconcile.cases import CASES, RULES, links, moved, records, rows, told
from tests.reconcile.situations import LATE_AFTER_MS, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_each_situation_is_called_what_it_is(case: Case) -> None:
    accepted, said = records(case), rows(case)
    every = list(places(accepted, links(case), said))
    found = [one for place in every for one in judged(place, RULES)]
    for place in every:
        here = (case.name, 0, place.offset, place.moment_ms)
        found += filter(None, [mistimed(place, {move.moves_to_ms for move in moved(case) if move[:4] == here})])
    found += [one for row in said if (one := untimely(row, LATE_AFTER_MS))]
    deadlines = {(one.offset, one.id): one.expires_ms for one in accepted if one.is_message}
    ends = [(row, deadlines[row.offset, row.id]) for row in said if (row.offset, row.id) in deadlines]
    found += [one for row, expires_ms in ends if (one := against_deadline(row, expires_ms))]
    known = {(one.topic, one.shard, one.offset, first_id(one.id) or "") for one in accepted if one.is_message}
    found += for_nobody([row for row in said if row.gives_way], known, RULES)
    assert told(found)[case.name] == list(case.found)
