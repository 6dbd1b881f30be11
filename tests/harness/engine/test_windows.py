"""How many windows a pool holds."""

import pytest

from harness.engine.roster import Roster
from harness.engine.windows import Windows
from tests.harness.engine.build import config
from tests.harness.engine.test_roster import a_job, opened


@pytest.mark.parametrize(("tokens", "slots"), [(1, 1), (8, 2), (9, 3), (16, 4), (17, 4), (1000, 4)])
def test_a_request_needs_a_window_and_two_pages_or_all_of_its_own(tokens, slots):
    settings = config(page=4, device=32, window=8)
    assert Windows(settings, Roster(4)).need(tokens) == slots


def test_without_the_component_nothing_is_needed():
    windows = Windows(config(page=4, device=32), Roster(4))
    assert windows.need(1000) == 0
    assert windows.admits(a_job(1))


@pytest.mark.parametrize(
    ("slots", "running", "admitted"), [(4, 0, True), (4, 1, False), (7, 1, False), (8, 1, True)]
)
def test_windows_of_running_jobs_fit_the_pool(slots, running, admitted):
    roster = Roster(4)
    for number in range(running):
        roster.to_prefill(opened(a_job(number, prompt=40)))
    windows = Windows(config(page=4, device=32, window=8, swa_device=slots), roster)
    assert windows.admits(a_job(9, prompt=40)) == admitted


@pytest.mark.parametrize(
    ("states", "running", "admitted"), [(2, 0, True), (2, 1, False), (5, 1, True), (5, 2, False)]
)
def test_running_jobs_have_two_states_each(states, running, admitted):
    roster = Roster(4)
    for number in range(running):
        roster.to_prefill(opened(a_job(number, prompt=40)))
    windows = Windows(config(page=4, device=32, states=states), roster)
    assert windows.admits(a_job(9, prompt=40)) == admitted


def test_short_jobs_count_as_short():
    roster = Roster(4)
    windows = Windows(config(page=4, device=32, window=8, swa_device=5), roster)
    roster.to_loading(opened(a_job(1, prompt=3, output=1)))  # 1 page
    assert windows.admits(a_job(2, prompt=40))
    roster.to_loading(opened(a_job(3, prompt=3, output=2)))  # 2 pages
    assert not windows.admits(a_job(2, prompt=40))
    assert windows.admits(a_job(2, prompt=6, output=2))
