"""Engines in both spellings, live against the release that reads each: whole runs, exactly.

Step stages against pyserq 0.1.4 (see earlier.py), the same engines as devices and engines against the reference.
Between them the programs have every rule of an engine: budgets, chunks and costs that read the residents, every order
of serving, `only`, exclusive prefill, granules, bodies with registers, memory, growth that preempts, engines that
admit, arrays of engines, legs, spilling.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import earlier
import reference
from compare import differences, sample_differences
from harness import ROOT, run
from spellings import meaning

pytestmark = pytest.mark.reference


@dataclass(frozen=True)
class Twin:
    """A program whose engine, with its pools, is written in both spellings."""

    step: str
    engine: str
    rest: str

    def as_step(self) -> str:
        return f"fn main() {{\n{self.step}\n{self.rest}\n}}\n"

    def as_engine(self) -> str:
        return f"fn main() {{\n{self.engine}\n{self.rest}\n}}\n"


def turns(rate: float) -> str:
    """Sessions of some turns: whole sizes, so that what is cached can be compared."""
    return TURNS.replace("RATE", repr(rate))


TURNS = """
  stage tool : delay;
  workload {
    arrive poisson(RATE);
    init { set K = 0; set kind = ~bernoulli(0.4); }
    turn { set n = ceil(~exp(14)); set o = min(1 + floor(~exp(6)), 15); }
    session { loop { turn; set K = K + n + o; branch with (0.6) { run tool (cost(tool, ~exp(3))); } else { end; } } }
  }
"""

TWINS = {
    # Two engines; the emptier is taken. Whoever is cached least is preempted.
    "arrays": Twin(
        """
  stage e[2] : step {
    budget 8 + decoders; chunk max(2, residents); cost 0.01 + 0.02 * residents + 0.001 * tokens;
    serve by (decoding ? 0 : 1, kind, remaining); memory kv;
  }
  pool kv[2] { cap 60; block 4; evict by (age); preempt by (position, admission) requeue tail; admit via e; }
  pool reqs[2] { cap 3; queue by (kind, 0 - waited); admit via e; }
""",
        """
  device d[2] { kv cap 60; }
  engine e[2] on d {
    reqs cap 3; tokens cap 8 + running.decoding;
    schedule {
      advance running by (decoding ? 0 : 1, kind, remaining) each at most (max(2, running.count));
      admit waiting while (running.preempted == 0) each at most (max(2, running.count));
    }
    execute (0.01 + 0.02 * running.count + 0.001 * batch.tokens);
  }
  pool kv on e.d { block 4; evict by (age); preempt by (position, admission) requeue tail; }
  pool reqs on e { queue by (kind, 0 - waited); }
""",
        turns(0.8)
        + """
  server {
    set t0 = now; set prompt = min(K + n, 40);
    choose j in 2 by (budget_left(e[j]) > 0 ? 0 : 1, work(e[j]), j);
    hold reqs[j] (cost(reqs, 1)), kv[j] (cost(kv, min(prompt, h + budget_left(e[j]))))
        at admission (h = min(cachedin(kv[j]), prompt - 1)) {
      set c = min(cached, prompt - 1); observe found = c;
      run e[j] prefill (cost(e, prompt - c)) growing kv[j]; observe first = now - t0;
      run e[j] decode (cost(e, o)) growing kv[j];
    } cache (cost(reqs, kv, prompt + o));
    observe left = used(kv[j]);
  }
""",
    ),
    # Prompts may run while few decode; memory is taken whole, prompts are read in pieces of four.
    "only": Twin(
        """
  stage e : step {
    budget max(decoders, 24 - 0.1 * (kv_decode + kv_prefill)); granule 4;
    cost max(0.02 + 1e-4 * kv_decode, 0.004 * tokens) + 1e-5 * attention;
    serve only (decoding || decoders < 3) decode first; memory kv;
  }
  pool kv { cap 150; evict by (waiting, size); admit via e; }
""",
        """
  device d { kv cap 150; reading (k) = 0.02 + 1e-4 * k; computing (t) = 0.004 * t; }
  engine e on d {
    tokens cap max(running.decoding, 24 - 0.1 * (running.kv_decode + running.kv_prefill)); granule 4;
    schedule {
      advance running only (decoding || running.decoding < 3) decode first;
      admit waiting only (decoding || running.decoding < 3) while (running.preempted == 0);
    }
    execute (max(reading(batch.kv_decode), computing(batch.tokens)) + 1e-5 * batch.attention);
  }
  pool kv on e.d { evict by (waiting, size); }
""",
        turns(0.8)
        + """
  server {
    set t0 = now; set prompt = min(K + n, 60);
    hold kv (cost(kv, prompt)) reserve (cost(kv, prompt + o)) reuse (cost(kv, cachedin(kv) >= K ? K : 0)) {
      observe found = cached;
      run e prefill (cost(e, max(prompt - cached, 1))); observe first = now - t0;
      run e decode (cost(e, o));
    } cache (cost(kv, prompt));
    observe resp = now - t0;
  }
""",
    ),
    # Prompts alone; one that must give way leaves the iteration to the decodes.
    "exclusive": Twin(
        """
  stage e : step {
    budget 16; chunk 6; cost 0.03 + 0.001 * prefilled + 0.005 * decoders; serve exclusive prefill; memory kv;
  }
  pool kv { cap 70; block 4; preempt lifo; }
  pool reqs { cap 5; queue by (n); admit via e; }
""",
        """
  device d { kv cap 70; }
  engine e on d {
    reqs cap 5; tokens cap 16;
    schedule { exclusive prefill each at most (6); admit waiting while (running.preempted == 0) each at most (6); }
    execute (0.03 + 0.001 * batch.prefilled + 0.005 * batch.decoding);
  }
  pool kv on d { block 4; preempt lifo; }
  pool reqs on e { queue by (n); }
""",
        turns(0.3)
        + """
  server {
    set t0 = now; set prompt = min(K + n, 40);
    hold reqs (cost(reqs, 1)), kv (cost(kv, 1)) {
      run e prefill (cost(e, prompt)) growing kv; observe first = now - t0;
      run e decode (cost(e, o)) growing kv;
    };
    observe resp = now - t0;
  }
""",
    ),
    # An iteration written out, with two registers: a gauge and the hold of the queue read one. Memory is spilled.
    # (No growth waits here: the two releases differ in when such a growth is given its room.)
    "body": Twin(
        """
  stage e : step {
    budget 20; cost 0.01 + 0.02 * ceil(tokens / 8); memory kv; state round = 0; state guess = 6;
    iteration {
      branch (round < 2 && decoders > 0) { serve only (decoding); }
      else { serve; admit while (preempted == 0 && tokens < 12); }
      set round = round < 2 ? round + 1 : 0;
      set guess = admitted > 0 ? 6 : max(1, guess - 0.25);
    }
  }
  pool tier { cap 60; evict lru; }
  stage link : fifo;
  pool kv { cap 80; evict lru; spill tier via link (0.01 * size) when (size > 4); }
  pool reqs { cap 4; admit via e; }
  gauge guessed = guess;
""",
        """
  device d { kv cap 80; }
  engine e on d {
    reqs cap 4; tokens cap 20; state round = 0; state guess = 6;
    schedule {
      branch (round < 2 && running.decoding > 0) { advance running only (decoding); }
      else { advance running; admit waiting while (running.preempted == 0 && batch.tokens < 12); }
      set round = round < 2 ? round + 1 : 0;
      set guess = waiting.admitted > 0 ? 6 : max(1, guess - 0.25);
    }
    execute (0.01 + 0.02 * ceil(batch.tokens / 8));
  }
  pool tier { cap 60; evict lru; }
  stage link : fifo;
  pool kv on d { evict lru; spill tier via link (0.01 * size) when (size > 4); }
  pool reqs on e { }
  gauge guessed = guess;
""",
        turns(0.8)
        + """
  server {
    set t0 = now; set prompt = min(K + n, 50);
    hold reqs (cost(reqs, 1)) reserve (cost(reqs, guess > 3 ? 2 : 1)), kv (cost(kv, prompt + o)) {
      observe slots = used(reqs);
      run e prefill (cost(e, max(prompt - cached, 1))) growing kv; observe first = now - t0;
      run e decode (cost(e, o)) growing kv;
    } cache (cost(reqs, kv, prompt));
    observe left = used(kv);
  }
""",
    ),
    # Legs beside their session at one engine: they have held nothing, so they come last.
    "legs": Twin(
        """
  stage e : step { budget 6; cost 0.02 + 0.004 * tokens; serve decode first; }
  pool pages { cap 40; block 4; admit via e; }
  pool reqs { cap 4; admit via e; }
""",
        """
  device d { }
  engine e on d {
    reqs cap 4; pages cap 40; tokens cap 6;
    schedule { advance running decode first; admit waiting while (running.preempted == 0); }
    execute (0.02 + 0.004 * batch.tokens);
  }
  pool pages on e { block 4; }
  pool reqs on e { }
""",
        turns(0.4)
        + """
  server {
    set t0 = now;
    fork { hold pages (cost(pages, min(n, 30))) { run e prefill (cost(e, 4)); observe side = now - t0; }; }
    hold reqs (cost(reqs, 1)) {
      run e prefill (cost(e, n)); observe first = now - t0;
      fork { run e prefill (cost(e, 5)); run e decode (cost(e, 2)); observe leg = now - t0; }
      run e decode (cost(e, o));
      join;
    };
    observe resp = now - t0;
  }
""",
    ),
}

#: Programs of `programs/` for which no exact figures are known: horizon, and inputs with which memory is short.
STEP_PROGRAMS: dict[str, tuple[float, dict[str, float]]] = {
    "disaggregated": (60.0, {"rate": 1.2, "memory": 17_600.0}),
    "replica": (300.0, {"memory": 3e5}),
    "sglang": (100.0, {"rate": 1.0, "tokens": 20_000.0}),
}


@pytest.fixture
def its_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels built meanwhile draw as 0.1.4 does; without that release the test is skipped and says why."""
    try:
        earlier.server()
    except earlier.Unavailable as error:
        pytest.skip(str(error))
    earlier.draw_as_it_does(monkeypatch)


@pytest.mark.parametrize("name", TWINS)
def test_both_spellings_mean_the_same(name: str) -> None:
    twin = TWINS[name]
    step, engine = (meaning(text, Path()) for text in (twin.as_step(), twin.as_engine()))
    assert isinstance(step, dict)
    assert step == engine


@pytest.mark.usefixtures("its_draws")
@pytest.mark.parametrize("name", TWINS)
def test_step_stages(name: str) -> None:
    wrong = earlier.disagreements(TWINS[name].as_step(), horizon=300)
    assert not wrong, "\n".join(wrong[:40])


@pytest.mark.usefixtures("its_draws")
@pytest.mark.parametrize("name", STEP_PROGRAMS)
def test_programs_with_step_stages(name: str) -> None:
    horizon, sets = STEP_PROGRAMS[name]
    source = (ROOT / "programs" / f"{name}.sq").read_text(encoding="utf-8")
    wrong = earlier.disagreements(source, horizon=horizon, seeds=(1, 2), sets=sets)
    assert not wrong, "\n".join(wrong[:40])


@pytest.mark.skipif(not reference.AVAILABLE, reason=reference.WHY_NOT)
@pytest.mark.parametrize("name", TWINS)
def test_engines(name: str) -> None:
    wrong: list[str] = []
    for seed in (1, 2, 3):
        expected = reference.run(TWINS[name].as_engine(), horizon=300, warmup=30, seed=seed)
        actual = run(TWINS[name].as_engine(), horizon=300, warmup=30, seed=seed)
        wrong += differences(expected.report, actual.report)
        for observed, samples in expected.samples.items():
            wrong += sample_differences(observed, samples, actual.samples[observed])
    assert not wrong, "\n".join(wrong[:40])


def test_the_release_is_installed_once_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is there is taken as it is; where pip finds nothing, one line says so and nothing is left."""
    assert earlier.packages(tmp_path) == tmp_path
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(earlier.Unavailable, match=r"^pyserq 0\.1\.4 cannot be installed here: .*No matching") as caught:
        earlier.packages(tmp_path / "packages")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
