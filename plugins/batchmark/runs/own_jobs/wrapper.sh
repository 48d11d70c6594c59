#!/bin/sh
# shellcheck disable=SC2006,SC2086
# Runs the command that it is given, and tells what is seen of it in lines of BATCHMARK_JOB: the job's key, a fact's name, its values.
# wrapper.py sends it as a Batch command, where brackets after a dollar would be replaced: hence backticks and eval.
# Names begin with _, so that they are none of the job's own variables.

# The environment may have names of these, too, or have the shell export all. Unset, no process gets them either.
set +a
unset _job _limit _made _old _peak _pid _seen _smi _told _up
_d='$' _busy=0 _all=0 _out=$BATCHMARK_OUTPUT

# A key that no process of the job is told, so that none can speak for this script.
read -r _job 2>/dev/null </proc/sys/kernel/random/uuid
_job="BATCHMARK_JOB ${_job:--}"

# Only by the shell itself: arguments and variables of a program can be read by all others.
_fact() { echo "$_job $*"; }
_facts() { while read -r _line; do _fact $1 "$_line"; done; }
_awk() { LC_ALL=C awk "$@" 2>/dev/null; }

# The uptime; busy and all jiffies since the first look.
_look() {
  read -r _up _ 2>/dev/null </proc/uptime
  read -r _ _line 2>/dev/null </proc/stat || return
  case $_line in '' | *[!0-9\ ]*) return ;; esac
  set -- $_line 0 0 0 0
  eval "_busy=$_d(($1+$2+$3+$6+$7-_busy)) _all=$_d(($1+$2+$3+$4+$5+$6+$7+$8-_all))"
}

_peak() { read -r _peak 2>/dev/null </sys/fs/cgroup/memory.peak; }

# Containers whose root is read-only have this folder all the same.
_new() { { mktemp || mktemp /dev/shm/tmp.XXXXXX; } 2>/dev/null; }

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

trap '_told=${_pid:-0}; kill $_pid 2>/dev/null' TERM INT HUP QUIT

# From 100 MB on, before the command began, it isn't the memory of this job alone.
_peak
case $_peak in ?????????*) _peak= ;; esac

# A file of others, such as one of a mount, is not told as the job's own.
_file=${BATCHMARK_METRICS#"$PWD"/}
case $_file in
  /* | *../*)
    _fact metrics_outside $_file
    _file=
    ;;
esac
if [ -z "$_file" ]; then
  _made=`_new` || echo "batchmark: no folder for metrics" >&2
  _file=${_made:-/dev/null}
  export BATCHMARK_METRICS="$_file"
elif [ -f "$_file" ]; then
  _old=`wc -l <"$_file"`
fi

_awk -F ': *' '
  /^model name/ && !n++ {print "cpu", $2}
  /^MemTotal/ {print "memory_kib", $2+0}
  /^[0-9]/ {print "kernel", $0}' /proc/cpuinfo /proc/meminfo /proc/sys/kernel/osrelease | _facts
# coreutils' nproc would tell OMP_NUM_THREADS.
_line=`unset OMP_NUM_THREADS OMP_THREAD_LIMIT; nproc 2>/dev/null` && _fact threads $_line

# A driver that hangs must not hold the job up.
command -v timeout >/dev/null && _limit='timeout 20'
_gpu='nvidia-smi --query-gpu=' _csv=--format=csv,noheader,nounits
if _line=`$_limit ${_gpu}name,driver_version,memory.total $_csv 2>/dev/null`; then
  echo "$_line" | _facts gpu
  _seen=`_new`
  ${_gpu}index,utilization.gpu,memory.used $_csv -l 5 >"${_seen:-/dev/null}" 2>/dev/null &
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

# awk may take a time that grows with the square of a line's length.
if [ -f "$_file" ]; then
  { echo "$_job"; cut -b-2001 || cat; } 2>/dev/null <"$_file" | _awk '
    NR<2{J=$0}
    NR>old+1 && ++n<=1e4 {print "BATCHMARK_METRIC_FILE " $0}
    END {if (n>1e4) print J, "metrics_left_out", n-1e4}' old="$_old" - ||
    sed 's/^/BATCHMARK_METRIC_FILE /' <"$_file"
  rm -f "$_made"
fi

# One that hangs in its driver is not waited for. Each GPU's first sample is from before the command.
if [ "$_smi" ]; then
  kill $_smi
  _awk -F ', *' '
    s[$1]++ && $2~/^[0-9]/ {n++; sum+=$2; if ($2>top) top=$2; if ($3>mib) mib=$3}
    END {if (n) printf "%d %.1f %d %d\n", n, sum/n, top, mib}' "$_seen" | _facts gpu_busy
  rm "$_seen"
fi 2>/dev/null

if [ $_end = 0 ]; then
  if [ "$BATCHMARK_CHECK" ]; then
    _run sh -c "$BATCHMARK_CHECK"
    _end=$_code
    echo
    _fact check $_end
  fi
  if [ "$_out" ]; then
    _line=missing
    [ ! -f "$_out" ] || _line=`sha256sum <"$_out" 2>/dev/null`
    _line=${_line%% *}
    _fact sha256 ${_line:-unknown}
    # What is missing is never right.
    [ "${BATCHMARK_OUTPUT_SHA256:-${_line#missing}}" = "$_line" ] || [ $_end != 0 ] || _end=1
  fi
fi
# All is told.
_fact over
exit $_end
