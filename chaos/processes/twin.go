package processes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// twin is a second process with a node's name. It is expected to exit soon;
// Close kills it otherwise.
type twin struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (d *Driver) twin(name string) error {
	if !isNode(name) {
		return fmt.Errorf("a twin of %s: not a node", name)
	}
	program, args, err := d.nodes.Command(name)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(d.cfg.Dir, name+"-twin.log"))
	if err != nil {
		return err
	}
	defer out.Close() // the process has its own descriptor
	// Of a repeated flag the last one counts.
	cmd := exec.Command(program, append(args, "--listen", "127.0.0.1:0", "--advertise", "")...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	t := &twin{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		_ = cmd.Wait() // its log has the reason
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.twins = append(d.twins, t)
	return nil
}

func (t *twin) kill() {
	_ = t.cmd.Process.Kill() // it may have ended already
	<-t.done
}
