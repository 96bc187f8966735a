package playground

import "time"

// Fast is the speed of a run that does not wait.
const Fast = 0

// Goal is what a step leads to.
type Goal string

// The goals.
const (
	Message   Goal = "message"   // between two hosts of the cluster
	Election  Goal = "election"  // a meta leads a new term
	Violation Goal = "violation" // a checker finds a broken promise
)

// limits are how long a step may take, in virtual time.
var limits = map[Goal]time.Duration{Message: time.Second, Election: time.Minute, Violation: time.Minute}

// Pace is how time moves, and where it is.
type Pace struct {
	Speed   float64 `json:"speed"` // virtual seconds in a second; Fast: as many as can be
	Paused  bool    `json:"paused"`
	Step    Goal    `json:"step,omitempty"`    // the goal of a step that has not ended
	Replays bool    `json:"replays,omitempty"` // the start's moment is not reached yet
	Reached string  `json:"reached,omitempty"` // what the last step has led to
	AtMs    float64 `json:"atMs"`              // virtual time since the start
	Start   string  `json:"start"`             // this moment as a Start
	HeapMiB int     `json:"heapMiB"`
}
