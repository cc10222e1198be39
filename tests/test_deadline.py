import signal
import threading
import time

import pytest

from optimizer.deadline import hard_deadline
from optimizer.errors import TimeLimitError


def test_what_does_not_end_is_ended():
    def never_ends():
        with hard_deadline(0.01):
            while True:
                time.sleep(0.05)

    with pytest.raises(TimeLimitError, match=r"time limit of 0\.01 s") as caught:
        never_ends()

    assert caught.value.limit == 0.01
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_what_ends_in_time_leaves_no_alarm_behind():
    before = signal.getsignal(signal.SIGALRM)

    with hard_deadline(100.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 100.0

    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    assert signal.getsignal(signal.SIGALRM) is before


def test_other_threads_and_runs_without_a_limit_have_no_alarm():
    seen = []

    def run(limit_s):
        with hard_deadline(limit_s):
            seen.append(signal.getitimer(signal.ITIMER_REAL)[0])

    thread = threading.Thread(target=run, args=(1.0,))
    thread.start()
    thread.join()
    run(None)

    assert seen == [0.0, 0.0]
