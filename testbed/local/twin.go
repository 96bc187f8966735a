package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"conclave/testbed"
)

func (d *Cluster) twin(name string) error {
	if !isNode(name) {
		return fmt.Errorf("a twin of %s: not a node", name)
	}
	t, err := d.spawn(name, "twin", "--listen", "127.0.0.1:0", "--advertise", "")
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.twins = append(d.twins, t)
	return nil
}

// nowhere is an address at which nothing listens.
const nowhere = "127.0.0.1:1"

// startWrong starts a session or data node that is down with an advertised
// address at which nothing listens. The supervisor does not know of the
// process.
func (d *Cluster) startWrong(name string) error {
	if !isNode(name) || strings.HasPrefix(name, "meta-") {
		return fmt.Errorf("start %s at a wrong address: %w", name, testbed.ErrUnsupported)
	}
	pid, err := d.pid(name)
	if err != nil {
		return err
	}
	if pid != 0 || d.wrong[name] != nil {
		return fmt.Errorf("start %s at a wrong address: it is running", name)
	}
	t, err := d.spawn(name, "wrong", "--advertise", nowhere)
	if err == nil {
		d.wrong[name] = t
	}
	return err
}

// endWrong kills the process that startWrong has started for the node, if there
// is one.
func (d *Cluster) endWrong(name string) {
	if t := d.wrong[name]; t != nil {
		t.kill()
		delete(d.wrong, name)
	}
}

// spawn starts a second process of a node, with flags that override the node's
// own. Its log is called name-what.log.
func (d *Cluster) spawn(name, what string, flags ...string) (*twin, error) {
	program, args, err := d.nodes.Command(name)
	if err != nil {
		return nil, err
	}
	out, err := os.Create(filepath.Join(d.cfg.Dir, name+"-"+what+".log"))
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own descriptor
	// Of a repeated flag the last one counts.
	cmd := exec.Command(program, append(args, flags...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &twin{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(t.done)
		_ = cmd.Wait() // its log has the reason
	}()
	return t, nil
}
