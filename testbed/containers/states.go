package containers

import "conclave/testbed/containers/compose"

// Status is what is known of a container.
type Status struct {
	State State
	PID   int // on the engine's machine; 0: it does not run, or it is not known
}

// State is the state of a container.
type State string

// The states.
const (
	Running State = "running"
	Paused  State = "paused"
	Killed  State = "killed" // by a signal
	Exited  State = "exited"
)

// up reports whether the container runs, or is paused.
func (s Status) up() bool { return s.State == Running || s.State == Paused }

// statusOf returns the status of a container; one that has not started yet is
// Exited.
func statusOf(c compose.Container) Status {
	switch c.State {
	case "running":
		return Status{Running, c.PID}
	case "paused":
		return Status{Paused, c.PID}
	}
	return Status{State: ended(c.ExitCode)}
}

// ended returns the state of a container that has ended with a code.
func ended(code int) State {
	if code > 128 { // 128 and the signal
		return Killed
	}
	return Exited
}
