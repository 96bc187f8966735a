// Package supervisor runs a whole cluster as processes of this machine, in one
// folder. It finds the programs, picks ports, starts all processes at once,
// watches them, and stops them in order.
//
// It signals only processes that it has started. Each pid is stored together
// with the start time of its process, so a recycled pid is not signalled. A
// process that was killed stays down and is shown as killed, unless
// Config.Restart is set.
//
//	DIR/lock           held (flock) by the supervisor while it runs
//	DIR/cluster.json   the processes, their addresses and start times; replaced by rename
//	DIR/control.sock   the supervisor's socket: start one process, stop all; it is in
//	                   the temporary folder if the path is too long for the kernel
//	DIR/logs/NAME.log  the output of a process, appended over its restarts
//	DIR/db.sql         the embedded database
//	DIR/dsn, token     the secrets, which the processes read from these files
//	DIR/tokens         the cluster's own tokens, if it has any
//	DIR/app-token      the one of them for applications
//
// A folder keeps its ports, with which clients find the cluster again after a stop.
// Ports are claimed by locked files in a folder that all supervisors of the
// machine share (claims.go), from before the processes listen until the cluster
// has ended. Two clusters that start at the same moment therefore get different
// ports.
//
// With Config.Inside there are no processes: each node is a server inside the
// supervisor's own (`conclave dev`), which `start` and `kill` reach through the socket,
// and which ends with the supervisor.
//
// Cluster is the supervisor itself. Handle gives any process access to a
// cluster. If the supervisor was killed, its processes can still be listed, killed
// and stopped; only a supervisor starts processes.
//
// # Reading order
//
// config.go is the configuration; plan.go derives the commands and addresses of
// the processes and their tokens from it; claims.go reserves the ports; cluster.go is
// the supervisor, with what it does before the metas start, child.go one process with
// its restarts, stop.go the order of a graceful stop. state.go is the folder, and how a
// process is recognised. control.go serves the socket, handle.go is its client;
// probe.go finds out what each process is doing.
//
// # When a part fails
//
//	a process        is recorded as killed or exited, and is down until `start` or Restart
//	the supervisor   its processes continue; another one is refused (ErrBusy) until
//	                 `down` has stopped them by their pids
//	the folder       the cluster stops, because no command could find it any more
//	the machine      all processes end; the folder can be used again, because no recorded
//	                 pid has its start time, and db.sql has all acknowledged changes
package supervisor
