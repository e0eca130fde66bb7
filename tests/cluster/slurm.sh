#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Workers under Slurm: installs it if necessary (Debian, as root), starts a cluster of one node on ports and folders of its
# own, and checks there that
#   1 000 runs of one second on 8 workers take at most 5 % longer than 125 s,
#   100 SIGKILLs of workers, of the whole array, of slurmctld and of slurmd lose no run and record none twice,
#   the record has what one undisturbed process records,
#   jobs that are too short for all runs are requeued until all are done,
#   a worker takes over from one on another host (in namespaces, where they cannot see each other's processes) that was killed.
# Prints TAP. Environment: ATVI (the program), RUNS (1000), KILLS (100).
set -u
TOP=$(cd "$(dirname "$0")/../.." && pwd)
ATVI=${ATVI:-$TOP/build/atvi}
RUNS=${RUNS:-1000} KILLS=${KILLS:-100} WORKERS=8
number=0 bad=0

skip() {
  echo "1..0 # SKIP $1"
  exit 0
}
ok() { number=$((number + 1)) && echo "ok $number $1"; }
not_ok() { number=$((number + 1)) bad=$((bad + 1)) && echo "not ok $number $1"; }
check() { # TITLE COMMAND...
  local title=$1
  shift
  if "$@"; then ok "$title"; else not_ok "$title"; fi
}

[ "$(id -u)" -eq 0 ] || skip "Slurm can be started by root alone"
for program in slurmctld slurmd munged jq; do
  command -v $program >/dev/null || [ -x /usr/sbin/$program ] || missing=1
done
if [ -n "${missing-}" ]; then
  apt-get install -y --no-install-recommends slurm-wlm munge jq >/dev/null 2>&1 || skip "Slurm cannot be installed"
fi

dir=$(mktemp -d /tmp/atvi_slurm.XXXXXX)
chmod 755 "$dir"
cd "$dir" || exit 1
host=$(hostname -s)
port=$((20000 + RANDOM % 20000))
export SLURM_CONF=$dir/slurm.conf PATH=$PATH:/usr/sbin
cat >slurm.conf <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=30
KillWait=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=$WORKERS State=UNKNOWN
PartitionName=short Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
mkdir state spool
head -c 1024 /dev/urandom >munge.key
chmod 400 munge.key

end() {
  scancel -u root -s KILL -b >/dev/null 2>&1
  scancel -u root >/dev/null 2>&1
  sleep 1
  for p in slurmd slurmctld munged; do [ -s $p.pid ] && kill "$(cat $p.pid)" 2>/dev/null; done
  sleep 2
  if [ $bad -eq 0 ] && [ -z "${KEEP-}" ]; then rm -rf "$dir"; else echo "# kept: $dir"; fi
}
trap end EXIT
trap 'exit 1' INT TERM

munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
  --log-file="$dir/munged.log" --seed-file="$dir/munge.seed" >munge.txt 2>&1 || skip "munged does not start: $(cat munge.txt)"
slurmctld >ctld.txt 2>&1 || skip "slurmctld does not start: $(cat ctld.txt)"
slurmd >slurmd.txt 2>&1 || skip "slurmd does not start: $(cat slurmd.txt)"
for _ in $(seq 60); do
  sinfo -h -o %t 2>/dev/null | grep -q idle && break
  sleep 0.5
done
sinfo -h -o %t | grep -q idle || skip "the node does not become idle"

# model NAME COMMAND N
model() {
  printf 'param k ~ uniform(0, 1)\nparam m ~ uniform(2, 5)\nparam s2 ~ invgamma(2, 1)\nsimulator {\n  command "%s"\n  output flow from stdout csv\n}\ndata "obs.csv"\nobserve y ~ emulator(flow) + white(s2)\n' "$2" >"$1.atvi"
  "$ATVI" design "$1.atvi" -n "$3" -q >/dev/null
}
records() { find "$1-runs" -name '*.jsonl' -exec cat {} +; }
content() { records "$1" | jq -cS 'select(.id) | del(.seconds, .attempts)' | sort; }
done_in() { "$ATVI" run "$1.atvi" --status | grep -q "^$2 of $2 runs are good$"; }
twice() { records "$1" | jq 'select(.id) | .id' | sort | uniq -d | wc -l; }

# ---- speed ----
model speed 'sleep 1; echo {k}; echo {m}' "$RUNS"
begun=$(date +%s.%N)
"$ATVI" run speed.atvi --slurm "-p short" --workers $WORKERS --wait -q >speed.txt 2>&1
ended=$(date +%s.%N)
ideal=$((RUNS / WORKERS))
spent=$(echo "$ended - $begun" | bc)
echo "# $RUNS runs of 1 s on $WORKERS workers: $spent s from submission to the end, ideal $ideal s"
check "all $RUNS runs are good" done_in speed "$RUNS"
if [ "$RUNS" -ge 1000 ]; then
  check "within 5 % of ideal" test "$(echo "$spent < 1.05 * $ideal" | bc)" -eq 1
else
  ok "within 5 % of ideal # SKIP too few runs: starting the jobs takes seconds"
fi
check "none was recorded twice" test "$(twice speed)" -eq 0

# ---- kills ----
model kills 'sleep 1; echo {k}; echo {m}' "$RUNS"
submit() { "$ATVI" run kills.atvi --slurm "-p short" --workers $WORKERS -q >>submit.txt 2>&1; }
workers() { # not the processes that guard them
  local p
  for p in $(pgrep -x atvi); do
    { tr '\0' ' ' <"/proc/$p/cmdline"; } 2>/dev/null | grep -q "run $dir/kills.atvi --worker" && echo "$p"
  done
}
# Slurm takes a node out of service after some of its own failures; an administrator would do this.
revive() { scontrol update NodeName="$host" State=RESUME >/dev/null 2>&1; }
submit
begun=$(date +%s)
declare -A killed=([worker]=0 [array]=0 [slurmctld]=0 [slurmd]=0)
for _ in $(seq "$KILLS"); do
  sleep "$((RANDOM % 2)).$((RANDOM % 10))"
  what=worker
  case $((RANDOM % 10)) in 0) what=array ;; 1) what=slurmctld ;; 2) what=slurmd ;; esac
  case $what in
    worker) workers | shuf -n 1 | xargs -r kill -KILL 2>/dev/null ;;
    array) workers | xargs -r kill -KILL 2>/dev/null ;;
    *)
      [ -s $what.pid ] && kill -KILL "$(cat $what.pid)" 2>/dev/null
      sleep 0.3
      rm -f $what.pid
      $what >>restart.txt 2>&1
      ;;
  esac
  killed[$what]=$((killed[$what] + 1))
  revive
  # what somebody does who sees that workers are missing
  if [ "$(workers | wc -l)" -le $((WORKERS / 2)) ]; then submit; fi
done
for _ in $(seq 20); do
  revive
  timeout 120 "$ATVI" run kills.atvi --slurm "-p short" --workers $WORKERS --wait -q >>submit.txt 2>&1
  done_in kills "$RUNS" && break
done
echo "# $KILLS SIGKILLs: ${killed[worker]} of a worker, ${killed[array]} of all, ${killed[slurmctld]} of slurmctld, ${killed[slurmd]} of slurmd; $(($(date +%s) - begun)) s"
check "no run was lost" done_in kills "$RUNS"
check "none was recorded twice" test "$(twice kills)" -eq 0
cp -r kills-runs alone-runs
rm -rf alone-runs/shards alone-runs/runs.jsonl alone-runs/claims alone-runs/workers
sed 's/sleep 1; //' kills.atvi >alone.atvi
"$ATVI" run alone.atvi -q >/dev/null
content kills >kills.txt
content alone >alone.txt
check "the record is that of one process" cmp kills.txt alone.txt

# ---- parallel programs, and fits ----
scancel -u root >/dev/null 2>&1
model parallel 'srun -n 2 echo {k} | head -n 1; echo {m}' 6
timeout 300 "$ATVI" run parallel.atvi --slurm "-p short -n 2" --workers 2 --wait -q >parallel.txt 2>&1
check "a simulator may be started by srun" done_in parallel 6
if command -v mpicc >/dev/null && srun --mpi=list 2>&1 | grep -q pmix; then
  cat >both.c <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int n, char **arg) {
  int rank, size, sum, own = 1;
  MPI_Init(&n, &arg);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Reduce(&own, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0 && sum == 2) printf("%s\n%s\n", arg[1], arg[2]);
  MPI_Finalize();
  return 0;
}
C
  mpicc -o both both.c
  model mpi 'srun --mpi=pmix -n 2 {here}/both {k} {m}' 4
  timeout 300 "$ATVI" run mpi.atvi --slurm "-p short -n 2" --workers 2 --wait -q >mpi.txt 2>&1
  check "so may one that is an MPI program" done_in mpi 4
else
  ok "so may one that is an MPI program # SKIP no mpicc, or Slurm without pmix"
fi
cp "$TOP"/examples/cold/cold.* .
compare=(compare cold.atvi --methods ram,map,atvi)
"$ATVI" "${compare[@]}" --out alone-compare -q >/dev/null 2>&1
timeout 300 "$ATVI" "${compare[@]}" --out shared-compare --slurm "-p short" --workers 3 --wait >compare.txt 2>&1
"$ATVI" "${compare[@]}" --out shared-compare -q >/dev/null 2>&1
check "a comparison on Slurm is that of one process" cmp <(grep -v seconds shared-compare/compare.csv) <(grep -v seconds alone-compare/compare.csv)
sbc=(sbc cold.atvi --method ram --replicates 8)
"$ATVI" "${sbc[@]}" --out alone-sbc -q >/dev/null 2>&1
timeout 300 "$ATVI" "${sbc[@]}" --out shared-sbc --slurm "-p short" --workers 4 --wait >sbc.txt 2>&1
"$ATVI" "${sbc[@]}" --out shared-sbc -q >/dev/null 2>&1
check "fits on Slurm are those of one process" cmp shared-sbc/ecdf.csv alone-sbc/ecdf.csv

# ---- requeue ----
scancel -u root >/dev/null 2>&1
for _ in $(seq 60); do
  [ "$(squeue -h -u root | wc -l)" -eq 0 ] && sinfo -h -o %t | grep -q idle && break
  sleep 1
done
model again 'sleep 6; echo {k}; echo {m}' 12
"$ATVI" run again.atvi --slurm "-p short -t 1" --workers 1 -q >again.txt 2>&1
restarts=0
for _ in $(seq 100); do
  r=$(squeue -h -o '%i' -u root | wc -l)
  n=$(scontrol show job 2>/dev/null | grep -o 'Restarts=[0-9]*' | cut -d= -f2 | sort -n | tail -1)
  [ "${n:-0}" -gt $restarts ] && restarts=$n
  { done_in again 12 || [ "$r" -eq 0 ]; } && break
  sleep 3
done
echo "# 12 runs of 6 s in jobs of one minute: $restarts restarts"
check "a job that is too short is requeued until all is done" done_in again 12
check "none was recorded twice" test "$(twice again)" -eq 0

# ---- two hosts ----
if unshare --uts --pid --fork --mount-proc true 2>/dev/null; then
  model hosts 'sleep 2; echo {k}; echo {m}' 16
  on() { exec unshare --uts --pid --fork --kill-child --mount-proc sh -c "hostname $1; exec '$ATVI' run hosts.atvi --worker --jobs 1 -q" >"$1.txt" 2>&1; }
  on node-a &
  a=$!
  on node-b &
  b=$!
  sleep 5
  kill -KILL $b
  begun=$(date +%s)
  wait $a
  echo "# a killed worker of another host: its point was done, and all ended, $(($(date +%s) - begun)) s later"
  check "a worker takes over from another host" done_in hosts 16
  check "none was recorded twice" test "$(twice hosts)" -eq 0
else
  ok "a worker takes over from another host # SKIP no namespaces"
fi

echo "1..$number"
exit $((bad > 0))
