package client

// Hold takes the client's lock, as thousands of goroutines of an application may one
// after the other, and returns what releases it.
func Hold(c *Client) (release func()) {
	c.mu.Lock()
	return c.mu.Unlock
}

// Busy sets what waits until the other goroutines of the process have run. Call it
// before Start.
func Busy(c *Client, turns func()) { c.turns = turns }
