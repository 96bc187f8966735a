package testbed

// Status is the state of one process of a cluster, as ps and the console show it.
type Status struct {
	Name        string `json:"name"`
	Role        string `json:"role"` // meta, session, data, db, client
	PID         int    `json:"pid"`
	State       string `json:"state"` // starting, ready, suspended, draining, exited, killed
	HTTP        string `json:"http"`  // address of a node's one port
	Bolt        string `json:"bolt"`  // empty: no node has a second port; readers of ps --json expect the key
	Incarnation string `json:"incarnation"`
	SQL         string `json:"sql,omitempty"`    // the db's MySQL address
	Code        int    `json:"code,omitempty"`   // exit code, when exited
	Signal      string `json:"signal,omitempty"` // the signal that ended it, when killed
	Why         string `json:"why,omitempty"`    // it is not ready: the reasons of its /readyz; or has ended
	Advertised  string `json:"-"`                // the address at which the others reach it
}
