// Package supervisor runs a whole cluster as processes of this machine, out of
// one folder: it finds the programs, picks ports, starts everything at once,
// watches, and stops it again in order.
//
// It breaks nothing that it did not start: every pid is kept together with the
// start time of its process, so that a recycled pid is never signalled. What was
// killed stays down and is said to be (that is what the cluster is for), unless
// Config.Restart brings it back.
//
//	DIR/lock           held (flock) by the supervisor while it lives
//	DIR/cluster.json   who runs, where, since when; written whole, then renamed
//	DIR/control.sock   the supervisor's ear: start one, stop all; in the temporary
//	                   folder when DIR is too deep for the kernel
//	DIR/logs/NAME.log  what a process wrote, appended over its lives
//	DIR/pids/NAME.pid  its pid, while it runs
//	DIR/db.sql         the embedded database
//	DIR/dsn, token     the secrets that processes are told of by file
//
// Ports are claimed by locked files in a folder that all supervisors of the machine
// share (claims.go), from before the processes listen until the cluster has ended:
// two clusters that start at the same moment get different ones.
//
// Cluster is the supervisor itself; Handle is how everybody else reaches one,
// and also works when the supervisor was killed and only its processes are left.
//
// # Reading order
//
// config.go says what is to run; plan.go makes of it who is started how, and where;
// claims.go keeps the ports; cluster.go is the supervisor, child.go one process through
// all its lives, stop.go the order of the end. state.go is the folder, process.go what a pid is worth,
// log.go the last line of a log. control.go is the socket, handle.go its other side;
// probe.go finds out what each process is doing.
//
// # When a part dies
//
//	a process        is noted as killed or exited, and is down until `start` or Restart
//	the supervisor   its processes live on; a second one is refused (ErrBusy) until
//	                 `down` has stopped them by their pids
//	the folder       the cluster stops: nobody could find it any more
//	the machine      all of it; the folder is free again, for no recorded pid has its
//	                 start time, and db.sql has what was acknowledged
package supervisor
