// Package containers plays scenarios on a cluster that runs in containers, as a
// project of docker compose: it kills, stops, pauses and continues them, and
// disconnects them from the project's networks.
//
//	Cluster ----> Project ----> docker, docker compose
//
// It runs the programs `docker compose`, to create the project, and `docker`,
// for everything else. It does not use the engine's API, so everything can also
// be done by hand, and an error contains what the program printed. Containers are
// found by the labels that compose sets, so another process can use the same
// project; two that control it at the same time disturb each other. Only what was
// cut is known to the Project that has cut it.
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
// # Access from this machine
//
// Nodes advertise to clients the addresses at which nodes reach each other,
// which this machine may not be able to dial (on Linux it often can, elsewhere
// it cannot). Ports are published on loopback instead. Outside is a network
// that translates a dial to an advertised address into one to the published
// port.
//
// # Guarantees
//
//   - Every call ends with its context or after its own limit; a program that was
//     interrupted has ended when the call returns.
//   - The programs run in their own process group: a Ctrl-C at the terminal reaches
//     only the caller.
//   - Up removes what an interrupted run of the same project has left in any state:
//     paused, partly created, disconnected from a network. Down does the same and can
//     be repeated.
//
// # Files, in reading order
//
// A file uses what later files declare.
//
//   - act.go: how each action is done to containers.
//   - cluster.go: the compose project, its clients, and the states of its containers.
//   - overlay.go: the compose file that a scenario adds.
//   - up.go: a project is created, awaited and removed.
//   - service.go: what is done to one service, and its connections to networks.
//   - watch.go: the engine's events.
//   - container.go: a container as the engine sees it, and the ways to it.
//   - project.go: a project, and one run of the program docker.
package containers
