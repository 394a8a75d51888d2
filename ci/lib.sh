# Steps of a check: a heading, the command, its result; a summary at the end. Sourced by the scripts beside it.
#
#   step NAME COMMAND...        runs it, notes whether it succeeded, and goes on in both cases
#   skip NAME WHY               notes what was left out, and why
#   summary                     prints the list, then one line in the shape of cargo's; fails if a step failed
#
# A step's output is also kept in target/ci/, where `summary` counts the tests in it.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"
# Symbols in a panic's backtrace; costs nothing when nothing panics.
export RUST_BACKTRACE="${RUST_BACKTRACE:-1}"

ci_target="${CARGO_TARGET_DIR:-target}"
ci_logs="$ci_target/ci/$(basename "$0" .sh)"
ci_host="$(rustc -vV | sed -n 's/^host: //p')"
ci_lines=()
ci_failed=0
ci_begin=$SECONDS
rm -rf "$ci_logs"
mkdir -p "$ci_logs"

step() {
    local name="$1" began=$SECONDS status=0
    shift
    printf '\n==== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$ci_logs/$name.log" || status=${PIPESTATUS[0]}
    if [ "$status" -eq 0 ]; then
        ci_lines+=("$(printf 'ok      %-22s %5d s' "$name" $((SECONDS - began)))")
    else
        ci_lines+=("$(printf 'FAILED  %-22s %5d s  (exit status %d)' "$name" $((SECONDS - began)) "$status")")
        ci_failed=$((ci_failed + 1))
    fi
}

skip() {
    printf '\n==== %s: skipped: %s\n' "$1" "$2"
    ci_lines+=("$(printf 'skipped %-22s          %s' "$1" "$2")")
}

# Adds up the `test result:` lines of all steps. A step that is itself such a script ends with the sum of its own: then only
# that one is counted.
ci_count() {
    shopt -s nullglob
    awk '
        FNR == 1 { passed += p; failed += f; ignored += i; p = f = i = 0 }
        /^==== summary/ { p = f = i = 0 }
        /^test result: / {
            for (n = 2; n <= NF; n++) {
                if ($n ~ /^passed/) p += $(n - 1)
                if ($n ~ /^failed/) f += $(n - 1)
                if ($n ~ /^ignored/) i += $(n - 1)
            }
        }
        END { printf "%d %d %d\n", passed + p, failed + f, ignored + i }
    ' /dev/null "$ci_logs"/*.log
}

summary() {
    local passed failed ignored result=ok
    read -r passed failed ignored < <(ci_count)
    if [ "$ci_failed" -gt 0 ]; then
        result=FAILED
        # A step that fails without a failed test (a lint, say) counts as one.
        [ "$failed" -gt 0 ] || failed=$ci_failed
    fi
    printf '\n==== summary of %s\n' "$(basename "$0")"
    printf '%s\n' "${ci_lines[@]}"
    printf '\ntest result: %s. %d passed; %d failed; %d ignored; 0 measured; 0 filtered out; finished in %d.00s\n' \
        "$result" "$passed" "$failed" "$ignored" $((SECONDS - ci_begin))
    [ "$result" = ok ]
}

# Runs every test binary under ci/watchdog.sh, which ends one that hangs and says where its threads are.
# Usage: guard SECONDS COMMAND... ; for the host's own target, or the one named in CI_TRIPLE.
guard() {
    local seconds="$1" triple="${CI_TRIPLE:-$ci_host}"
    shift
    local variable="CARGO_TARGET_$(printf '%s' "$triple" | tr 'a-z-' 'A-Z_')_RUNNER"
    # The outer limit is for what is not a test binary: a build, or a documentation test.
    env "$variable=$PWD/ci/watchdog.sh $seconds" timeout --kill-after=10 $((seconds * 4)) "$@"
}
