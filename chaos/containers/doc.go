// Package containers plays scenarios on a cluster of containers: it kills, stops,
// pauses and continues them, and takes their cables to the project's networks out.
//
// # What can be done
//
// What is cut here is a host's cable: a meta from the database, or a host from
// everybody; a cable is mended as it was cut, alone or with all others. What passes
// between two given nodes, wall clocks, and the moment between two statements cannot
// be touched from outside, and are refused with chaos.ErrUnsupported; Ground says so
// before a story begins. Packages processes and sim can do more. This one shows that
// real MySQL and MariaDB, and hosts of their own, behave as those assume.
//
// # What is heard
//
// A story adds a file to the project's own (overlay.go): its sizes and times, and a
// folder of this machine in which each node writes what it claims. They are read when
// the story is over; containers of one machine have one clock.
//
// A call of the engine takes a quarter of a second and more. So the driver listens to
// the engine's events instead of asking who runs, and an act is dated by them: a kill
// took hold when the signal was sent, whatever else when it was asked for. A database
// is started when it takes connections.
package containers
