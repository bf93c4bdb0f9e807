#!/bin/sh
# A Slurm cluster of two nodes on this host, everything of it below one folder.
#   cluster.sh up DIR      start it; DIR/slurm.conf is what SLURM_CONF has to name
#   cluster.sh down DIR    end it
set -eu
dir=$2
host=$(hostname -s)

down() {
	for file in slurmd.n1.pid slurmd.n2.pid slurmctld.pid munge/pid; do
		[ -s "$dir/$file" ] && kill "$(cat "$dir/$file")" 2>/dev/null || true
	done
}

# Three free ports above one that the process id gives: several clusters may run.
ports() {
	base=$((20000 + $$ % 20000))
	while ss -ltn 2>/dev/null | grep -qE ":($base|$((base + 1))|$((base + 2))) "; do
		base=$((base + 7))
	done
}

up() {
	mkdir -p "$dir/munge" "$dir/state" "$dir/spool.n1" "$dir/spool.n2" "$dir/log"
	chmod 755 "$dir" "$dir/munge"
	head -c 1024 /dev/urandom >"$dir/munge/key"
	chmod 600 "$dir/munge/key"
	munged --force --socket="$dir/munge/socket" --key-file="$dir/munge/key" \
		--pid-file="$dir/munge/pid" --log-file="$dir/munge/log" \
		--seed-file="$dir/munge/seed"
	ports
	n_cpus=$(nproc)
	cat >"$dir/slurm.conf" <<-EOF
		ClusterName=memsight
		SlurmctldHost=$host(127.0.0.1)
		SlurmUser=$(id -un)
		SlurmdUser=$(id -un)
		AuthType=auth/munge
		AuthInfo=socket=$dir/munge/socket
		CredType=cred/munge
		SlurmctldPort=$base
		SlurmdPort=$((base + 1))
		StateSaveLocation=$dir/state
		SlurmdSpoolDir=$dir/spool.%n
		SlurmctldPidFile=$dir/slurmctld.pid
		SlurmdPidFile=$dir/slurmd.%n.pid
		SlurmctldLogFile=$dir/log/slurmctld
		SlurmdLogFile=$dir/log/slurmd.%n
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		AccountingStorageType=accounting_storage/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		ReturnToService=2
		MpiDefault=none
		SwitchType=switch/none
		KillWait=5
		SchedulerParameters=sched_interval=1,bf_interval=1
		NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) \
			CPUs=$n_cpus State=UNKNOWN
		NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 2)) \
			CPUs=$n_cpus State=UNKNOWN
		PartitionName=p Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
	EOF
	export SLURM_CONF="$dir/slurm.conf"
	slurmctld -c -f "$SLURM_CONF"
	slurmd -N n1 -f "$SLURM_CONF"
	slurmd -N n2 -f "$SLURM_CONF"
	for _ in $(seq 300); do
		[ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && exit 0
		sleep 0.1
	done
	echo "no two idle nodes after 30 s" >&2
	tail -n 5 "$dir"/log/* >&2
	exit 1
}

"$1"
