import signal
import threading
import time

import pytest

from optimizer.errors import TimeLimitError
from optimizer.process.deadline import hard_deadline, last_moment_s


def test_what_does_not_end_is_ended():
    def never_ends():
        with hard_deadline(0.01, spent_s=100.0):
            while True:
                time.sleep(0.05)

    with pytest.raises(TimeLimitError, match=r"time limit of 0\.01 s") as caught:
        never_ends()

    assert caught.value.limit == 0.01
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_an_end_that_a_destructor_would_lose_comes_after_it():
    class Slow:
        def __del__(self):
            time.sleep(0.05)

    def drops_them():
        with hard_deadline(0.01, spent_s=100.0):
            while True:
                Slow()

    with pytest.raises(TimeLimitError):
        drops_them()


def test_what_takes_the_end_for_another_is_ended_again():
    ends = []

    def takes_it_for_another():
        with hard_deadline(0.01, spent_s=100.0, told=lambda: ends.append(1)):
            try:
                while True:
                    time.sleep(0.05)
            except TimeLimitError:
                while True:
                    time.sleep(0.05)

    with pytest.raises(TimeLimitError):
        takes_it_for_another()

    assert len(ends) >= 2


def test_an_end_that_a_library_takes_for_bad_input_is_one_of_time():
    def takes_it_for_bad_input():
        with hard_deadline(0.01, spent_s=100.0):
            try:
                while True:
                    time.sleep(0.05)
            except TimeLimitError as error:
                raise ValueError("cannot be read") from error

    with pytest.raises(TimeLimitError, match=r"time limit of 0\.01 s"):
        takes_it_for_bad_input()


def test_an_error_before_the_end_stays_what_it_is():
    with pytest.raises(ValueError, match="cannot be read"), hard_deadline(100.0):
        raise ValueError("cannot be read")


def test_what_ends_in_time_leaves_no_alarm_behind():
    before = signal.getsignal(signal.SIGALRM)

    with hard_deadline(100.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 100.0

    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    assert signal.getsignal(signal.SIGALRM) is before


def test_the_deadline_around_another_holds_on():
    with hard_deadline(1000.0):
        with hard_deadline(10.0):
            assert signal.getitimer(signal.ITIMER_REAL)[0] < 20.0
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 900.0


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


@pytest.mark.parametrize(("limit_s", "promised_s"), [(2.0, 4.0), (20.0, 22.0), (600.0, 660.0)])
def test_the_last_moment_leaves_time_to_write_the_result(limit_s, promised_s):
    assert limit_s < last_moment_s(limit_s) < promised_s
