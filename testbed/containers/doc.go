// Package containers plays scenarios on a cluster of containers: it kills,
// stops, pauses and continues them, and disconnects them from the project's
// networks.
//
// # What is possible
//
// A cut disconnects a container from a network: a meta from the database's, or
// a host from all its networks. A mend connects what was cut, alone or with all
// others. Links between two given nodes cannot be broken, wall clocks cannot be
// set, and nodes cannot be held at points of their code; these acts return
// testbed.ErrUnsupported, and Capabilities reports that before a scenario begins.
// Packages local and simulated can do more. This one shows that real MySQL and
// MariaDB, and hosts of their own, behave as those assume.
//
// # What is recorded
//
// A scenario adds a file to the project's own (overlay.go): its sizes and
// times, and a folder of this machine into which each node writes its trace
// events. They are read at the end of the scenario; the containers of one
// machine have one clock.
//
// A call of the engine takes a quarter of a second or more. So the cluster
// follows the engine's events instead of asking which containers run, and takes
// the times of acts from them: a kill takes effect when the engine has sent the
// signal; all other acts count from their request. A start of the database ends
// when it accepts connections.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - act.go: how each action is done to containers.
//   - cluster.go: the compose project, its clients, and the states of its containers.
//   - overlay.go: the compose file that a scenario adds.
package containers
