package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/internal/certs"
)

// Server is a node inside this process. Methods may be called from any goroutine.
type Server interface {
	Kill()                 // ends it as SIGKILL does, and returns when it has ended
	Stop(late func(error)) // begins a graceful stop
	Asked() bool           // reports whether Stop was called
	Done() <-chan struct{}
	Err() error // how it has ended: context.Canceled if it was killed; valid after Done
}

// Embedded is the Config.DB that starts a devdb beside the cluster.
const Embedded = "embedded"

// Config describes the cluster to run. For a zero duration or number that is
// passed on to the processes, their own default applies.
type Config struct {
	// Dir is the cluster's folder, created if it is missing. A folder holds one
	// cluster.
	Dir string `json:"dir"`
	// Bin is the folder that holds the programs meta, session, data and devdb, or
	// conclave alone.
	Bin string `json:"bin"`
	// Tool is the path of the program conclave, which runs the clients; needed
	// only if Clients is above zero.
	Tool string `json:"tool,omitempty"`
	// Metas, Sessions and Datas are the numbers of processes of each role.
	Metas    int `json:"metas"`
	Sessions int `json:"sessions"`
	Datas    int `json:"datas"`
	// Clients is the number of publishers, and also of subscribers, that run as
	// processes.
	Clients int `json:"clients,omitempty"`

	// AnyPorts does not use the preferred ports, so that they stay free for
	// another cluster.
	AnyPorts bool `json:"anyPorts,omitempty"`
	// Ports is the first of the cluster's ports; 0: those that the folder had before,
	// or the preferred ones if they are free.
	Ports int `json:"ports,omitempty"`
	// Moved is set by New: why a new folder did not get the preferred ports.
	Moved string `json:"moved,omitempty"`

	// DB is Embedded or the DSN of an existing MySQL server.
	DB string `json:"db"`
	// Slots to NodeLease are passed to the metas.
	Slots     int           `json:"slots,omitempty"`
	Replicas  int           `json:"replicas,omitempty"`
	Profile   string        `json:"profile,omitempty"`
	Takeover  string        `json:"takeover,omitempty"`
	Lease     time.Duration `json:"lease,omitempty"`
	NodeLease time.Duration `json:"nodeLease,omitempty"`
	// Token, if not empty, is required by every process and sent with each
	// request to one.
	Token string `json:"token,omitempty"`
	// OwnTokens, without a Token, makes the cluster have tokens of its own: DIR/tokens,
	// drawn at the first start. Without both, every local process may do everything.
	OwnTokens bool `json:"ownTokens,omitempty"`
	// TLS makes all processes use TLS, with certificates of a CA in the folder.
	TLS bool `json:"tls,omitempty"`

	// Sofa makes each session serve clients of SOFARegistry at a port of its own.
	Sofa bool `json:"sofa,omitempty"`

	// Restart is the time after which a process that has ended is started
	// again; 0 leaves it down.
	Restart time.Duration `json:"restart,omitempty"`
	// StopWait is how long the processes of one role may take for their
	// graceful stop before they are killed. Default 15 s.
	StopWait time.Duration `json:"stopWait,omitempty"`

	// Trace, if not empty, is a folder in which each node writes its trace
	// claims to NAME.trace.
	Trace string `json:"trace,omitempty"`
	// Detour, if set, is called for each process that listens. It returns the
	// address that the process advertises instead of its own, and the local
	// address from which it dials; an empty result changes nothing. This is how
	// a network with faults is put between the processes.
	Detour func(name, listens string) (advertise, dialFrom string, err error) `json:"-"`
	// Inside, if set, starts a node, or the database, inside this process. Its log lines
	// go to log, which is open until the server has ended.
	Inside func(name string, log io.Writer) (Server, error) `json:"-"`
	// OneProcess is set by New with Inside: the recorded pid of each node is that of the
	// supervisor, and only it can start and end nodes.
	OneProcess bool `json:"oneProcess,omitempty"`
	// Migrate, if set, is called instead of what brings the schema of the database
	// up to date before the metas start, for tests without a database.
	Migrate func(ctx context.Context, dsn string, waiting func(time.Duration, error)) error `json:"-"`

	Logger hclog.Logger `json:"-"`
}

// DefaultConfig returns the configuration of the demo: three metas, two
// sessions, three data nodes and a database.
func DefaultConfig() Config {
	return Config{Dir: ".conclave", Metas: 3, Sessions: 2, Datas: 3, DB: Embedded, StopWait: 15 * time.Second}
}

// ErrConfig reports that a Config is invalid; the message names the field.
var ErrConfig = errors.New("invalid configuration")

// Validate returns an error that names the first invalid field and the values
// that are allowed.
func (c Config) Validate() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	for _, n := range []struct {
		name string
		n    int
	}{{"meta-nodes", c.Metas}, {"session-nodes", c.Sessions}, {"data-nodes", c.Datas}, {"clients", c.Clients}} {
		if n.n < 0 || n.n > 99 {
			return wrong("%s is %d: want 0 to 99", n.name, n.n)
		}
	}
	switch {
	case c.Dir == "":
		return wrong("dir is empty: want the folder of the cluster")
	case c.Metas == 0:
		return wrong("meta-nodes is 0: want at least 1")
	case c.Datas == 0 && c.Sessions > 0:
		return wrong("data-nodes is 0: want at least 1, since sessions serve nothing without one")
	case c.Slots < 0 || bits.OnesCount(uint(c.Slots)) > 1 || c.Slots > 1<<14:
		return wrong("slots is %d: want a power of two up to 16384", c.Slots)
	case c.Replicas < 0:
		return wrong("replicas is %d: want at least 1", c.Replicas)
	case c.Takeover != "" && c.Takeover != "witness" && c.Takeover != "lease":
		return wrong("takeover is %q: want witness or lease", c.Takeover)
	case c.Profile != "" && c.Profile != "conclave" && c.Profile != "sofa":
		return wrong("profile is %q: want conclave or sofa", c.Profile)
	case c.Ports < 0 || c.Ports > 65000:
		return wrong("ports is %d: want 1 to 65000", c.Ports)
	case c.DB == "":
		return wrong("db is empty: want %s or a DSN", Embedded)
	case c.Lease < 0 || c.NodeLease < 0 || c.Restart < 0 || c.StopWait < 0:
		return wrong("lease, node-lease or restart is negative: want 0 or more")
	}
	return nil
}

// tlsDir returns the folder with the certificates of a role, or "" without TLS.
func (c Config) tlsDir(role string) string {
	if !c.TLS {
		return ""
	}
	return filepath.Join(c.Dir, "tls", role)
}

// issueCerts issues new certificates for all roles, by the CA in the folder, which
// is made if there is none.
func (c Config) issueCerts() error {
	ca := filepath.Dir(c.tlsDir(roleClient))
	if err := certs.NewCA(ca, certs.CAValid); err != nil && !errors.Is(err, certs.ErrExists) {
		return err
	}
	return certs.Issue(ca, []string{"127.0.0.1", "localhost"}, certs.Valid)
}

// programs returns an error that names the first program that this cluster
// needs and that is missing.
func (c Config) programs() error {
	if c.Inside != nil {
		return nil
	}
	for _, need := range []struct {
		name string
		is   bool
	}{{"meta", true}, {"session", c.Sessions > 0}, {"data", c.Datas > 0}, {"devdb", c.DB == Embedded}} {
		if _, _, err := FindProgram(c.Bin, need.name); need.is && err != nil {
			return err
		}
	}
	return nil
}

// program is FindProgram for the cluster, which needs none for what runs inside.
func (c Config) program(name string) (path string, args []string, err error) {
	if c.Inside != nil {
		return "", nil, nil
	}
	return FindProgram(c.Bin, name)
}

// FindProgram returns the path of a program in the folder of all of them, and its first
// arguments: conclave, which runs each of them as a command, if only that is there.
func FindProgram(bin, name string) (path string, args []string, err error) {
	path = filepath.Join(bin, name)
	if isFile(path) {
		return path, nil, nil
	}
	if tool := filepath.Join(bin, "conclave"); isFile(tool) {
		return tool, []string{name}, nil
	}
	return "", nil, fmt.Errorf("program %q is not in %s, nor is conclave, which can run it: build them with `make build`", name, bin)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
