#!/bin/sh
# shellcheck disable=SC2006,SC2086
# Runs the command that it is given, and tells what is seen of it in lines of BATCHMARK_JOB, a key and its values.
# wrapper.py sends it as a Batch command, where brackets after a dollar would be replaced: hence backticks and eval.
# Names begin with _, so that they are none of the job's own variables.

_fact() { echo "BATCHMARK_JOB $*"; }
_awk() { LC_ALL=C awk -v J=BATCHMARK_JOB "$@" 2>/dev/null; }

# The uptime; busy and all jiffies since the first look.
_look() {
  [ ! -r /proc/uptime ] || read -r _up _ </proc/uptime
  [ -r /proc/stat ] && read -r _ _line </proc/stat || return
  case $_line in '' | *[!0-9\ ]*) return ;; esac
  set -- $_line 0 0 0 0
  eval "_busy=$_dollar(($1+$2+$3+$6+$7-_busy)) _all=$_dollar(($1+$2+$3+$4+$5+$6+$7+$8-_all))"
}

_peak() { [ ! -r /sys/fs/cgroup/memory.peak ] || read -r _peak </sys/fs/cgroup/memory.peak; }

# Containers whose root is read-only have this folder all the same.
_new_file() { { mktemp || mktemp /dev/shm/tmp.XXXXXX; } 2>/dev/null; }

# A signal ends `wait` before the command does; told again, it gives the command's own code.
_run() {
  _code=143
  [ -z "$_told" ] || return
  (exec "$@") &
  _pid=$!
  # Told before there was anybody to pass it on to.
  [ "$_told" != 0 ] || kill $_pid
  _code=
  while
    _told=
    wait $_pid 2>/dev/null
    _now=$?
    # 127: it had ended when the signal came, and its code is known.
    case $_code:$_now in ?*:127) ;; *) _code=$_now ;; esac
    [ "$_told" ]
  do :; done
  _pid=
}

_dollar='$' _busy=0 _all=0 _old=0
trap '_told=${_pid:-0}; kill $_pid 2>/dev/null' TERM INT HUP QUIT

# From 100 MB on, before the command began, it isn't the memory of this job alone.
_peak
case $_peak in ?????????*) _peak= ;; esac

if [ -z "$BATCHMARK_METRICS" ]; then
  _made=`_new_file`
  export BATCHMARK_METRICS="${_made:-/dev/null}"
  [ "$_made" ] || echo "batchmark: no folder for metrics" >&2
elif [ -f "$BATCHMARK_METRICS" ]; then
  _old=`wc -l <"$BATCHMARK_METRICS"`
fi
_file=$BATCHMARK_METRICS

_awk -F ': *' '
  /^model name/ && !n++ { print J, "cpu", $2 }
  /^MemTotal/ { print J, "memory_kib", $2 + 0 }
  /^[0-9]/ { print J, "kernel", $0 }' /proc/cpuinfo /proc/meminfo /proc/sys/kernel/osrelease
# coreutils' nproc would tell OMP_NUM_THREADS.
_line=`unset OMP_NUM_THREADS OMP_THREAD_LIMIT; nproc 2>/dev/null` && _fact threads $_line

# A driver that hangs must not hold the job up.
command -v timeout >/dev/null && _limit='timeout 20'
_csv=--format=csv,noheader,nounits
if _line=`$_limit nvidia-smi --query-gpu=name,driver_version,memory.total $_csv 2>/dev/null`; then
  echo "$_line" | sed 's/^/BATCHMARK_JOB gpu /'
  _seen=`_new_file`
  nvidia-smi --query-gpu=index,utilization.gpu,memory.used $_csv -l 5 >"${_seen:-/dev/null}" 2>/dev/null &
  _smi=$!
fi

_look
_fact begin 1 $_up
_run "$@"
_end=$_code
_look
# The command's last line may have no end.
echo
_fact end $_end $_up
[ "$_all" -le 0 ] || _fact busy $_busy $_all
[ -z "$_peak" ] || { _peak; _fact peak_memory $_peak; }

if [ -f "$_file" ]; then
  _awk '
    NR > old { n++ }
    n && n <= 10000 { print "BATCHMARK_METRIC_FILE " substr($0, 1, 2001) }
    END { if (n > 10000) print J, "metrics_left_out", n - 10000 }' old="$_old" - <"$_file" ||
    sed 's/^/BATCHMARK_METRIC_FILE /' <"$_file"
  [ -z "$_made" ] || rm "$_made"
fi

# One that hangs in its driver is not waited for. Each GPU's first sample is from before the command.
if [ "$_smi" ]; then
  kill $_smi
  _awk -F ', *' '
    seen[$1]++ && $2 ~ /^[0-9]/ { n++; sum += $2; if ($2 > most) most = $2; if ($3 > mib) mib = $3 }
    END { if (n) printf J " gpu_busy %d %.1f %d %d\n", n, sum / n, most, mib }' "$_seen"
  rm "$_seen"
fi 2>/dev/null

if [ $_end = 0 ]; then
  if [ "$BATCHMARK_CHECK" ]; then
    _run sh -c "$BATCHMARK_CHECK"
    _end=$_code
    echo
    _fact check $_end
  fi
  if [ "$BATCHMARK_OUTPUT" ]; then
    _line=missing
    [ ! -f "$BATCHMARK_OUTPUT" ] || _line=`sha256sum <"$BATCHMARK_OUTPUT" 2>/dev/null`
    _line=${_line%% *}
    _fact sha256 ${_line:-unknown}
    [ "$_line" != missing ] && [ "${BATCHMARK_OUTPUT_SHA256:-$_line}" = "$_line" ] || [ $_end != 0 ] || _end=1
  fi
fi
# All is told.
_fact over
exit $_end
