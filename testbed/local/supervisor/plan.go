package supervisor

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"conclave/wire/rights"
)

// The roles of processes. Package conclave defines those of nodes; the database
// and the clients are added by the tool.
const (
	roleDB      = "db"
	roleMeta    = "meta"
	roleData    = "data"
	roleSession = "session"
	roleClient  = "client"
)

// preferred are the first ports of each role, those of SOFARegistry and MySQL, which
// are used if all are free. With Config.Ports they are as far from that port as these
// are from preferredBase; the database has that port itself.
var preferred = map[string]int{roleMeta: 9615, roleSession: 9603, roleData: 9622, roleDB: 3306}

const preferredBase = 9600

// spec is all that is needed to start a process.
type spec struct {
	Name       string   `json:"name"`
	Role       string   `json:"role"`
	Program    string   `json:"program"`
	Args       []string `json:"args"`
	Address    string   `json:"address,omitempty"` // of its port; for the db of its MySQL port
	Advertised string   `json:"told,omitempty"`    // the address that it advertises, if not Address
}

// advertised returns the address at which other processes reach this one.
func (s spec) advertised() string { return cmp.Or(s.Advertised, s.Address) }

// plan returns the processes of a configuration in the order in which ps shows
// them, and the DSN with which the supervisor migrates the database. It writes the
// files that the arguments name. Secrets are in files because every user can read
// the arguments of a process.
func plan(cfg Config, ports *ports) (specs []spec, migrate string, err error) {
	dir := cfg.Dir
	common, err := tokenArgs(cfg)
	if err != nil {
		return nil, "", err
	}

	if cfg.TLS {
		if err := cfg.issueCerts(); err != nil {
			return nil, "", err
		}
	}

	dsn := cfg.DB
	migrate = dsn
	if dsn == Embedded {
		address, err := ports.take(roleDB)
		if err != nil {
			return nil, "", err
		}
		db := spec{Name: roleDB, Role: roleDB, Address: address}
		if db.Program, db.Args, err = cfg.program("devdb"); err != nil {
			return nil, "", err
		}
		db.Args = append(db.Args, "--listen", address, "--file", filepath.Join(dir, "db.sql"))
		if db.Advertised, _, err = cfg.detour(db.Name, address); err != nil {
			return nil, "", err
		}
		user := "root"
		if cfg.Token != "" || cfg.OwnTokens { // what the nodes protect, their database does too
			password := rand.Text()
			path := filepath.Join(dir, "db-password")
			if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
				return nil, "", err
			}
			db.Args, user = append(db.Args, "--password-file", path), user+":"+password
		}
		specs = append(specs, db)
		dsn, migrate = user+"@tcp("+db.advertised()+")/conclave", user+"@tcp("+address+")/conclave"
	}
	dsnFile := filepath.Join(dir, "dsn")
	if err := os.WriteFile(dsnFile, []byte(dsn+"\n"), 0o600); err != nil {
		return nil, "", err
	}

	node := func(role string, i int, more ...string) error {
		name := role + "-" + strconv.Itoa(i)
		address, err := ports.take(name)
		if err != nil {
			return err
		}
		advertise, from, err := cfg.detour(name, address)
		if err != nil {
			return err
		}
		program, args, err := cfg.program(role)
		if err != nil {
			return err
		}
		args = append(append(args, "--name", name, "--listen", address), common...)
		if advertise != "" {
			args = append(args, "--advertise", advertise)
		}
		if from != "" {
			args = append(args, "--dial-from", from)
		}
		if cfg.TLS {
			args = append(args, "--tls-dir", cfg.tlsDir(role))
		}
		if cfg.Trace != "" {
			args = append(args, "--trace", filepath.Join(cfg.Trace, name+".trace"))
		}
		specs = append(specs, spec{
			Name: name, Role: role, Program: program, Args: append(args, more...), Address: address, Advertised: advertise,
		})
		return nil
	}
	metas := ""
	for _, r := range []struct {
		role string
		n    int
	}{{roleMeta, cfg.Metas}, {roleData, cfg.Datas}, {roleSession, cfg.Sessions}} {
		for i := range r.n {
			more := metaArgs(cfg, dsnFile)
			if r.role != roleMeta {
				more = memberArgs(cfg, metas)
			}
			if r.role == roleSession && cfg.Sofa {
				address, err := ports.take(sofaPort(i + 1))
				if err != nil {
					return nil, "", err
				}
				more = append(more, "--sofa-listen", address)
			}
			if err := node(r.role, i+1, more...); err != nil {
				return nil, "", err
			}
		}
		if r.role == roleMeta {
			for _, s := range specs[len(specs)-r.n:] {
				metas += "," + s.advertised()
			}
			metas = strings.TrimPrefix(metas, ",")
		}
	}
	return append(specs, clientSpecs(cfg)...), migrate, nil
}

// sofaPort names the port at which a session serves clients of SOFARegistry.
func sofaPort(session int) string { return "sofa-" + strconv.Itoa(session) }

// usualNodeLease is the node lease for which the default beat of data and
// session nodes, one second, is meant.
const usualNodeLease = 3 * time.Second

// memberArgs returns the flags of a data or session node. It must send three
// beats in a node lease, but does not know how long the lease is.
func memberArgs(cfg Config, metas string) []string {
	args := []string{"--meta", metas}
	if 0 < cfg.NodeLease && cfg.NodeLease < usualNodeLease {
		args = append(args, "--beat", (cfg.NodeLease / 3).String())
	}
	return args
}

// metaArgs returns the flags of a meta. For zero fields of the configuration
// the default of the meta applies, which depends on its profile.
func metaArgs(cfg Config, dsnFile string) []string {
	args := []string{"--dsn-file", dsnFile}
	for _, f := range [][2]string{
		{"--slots", strconv.Itoa(cfg.Slots)}, {"--replicas", strconv.Itoa(cfg.Replicas)}, {"--profile", cfg.Profile},
		{"--takeover", cfg.Takeover}, {"--lease", cfg.Lease.String()}, {"--node-lease", cfg.NodeLease.String()},
	} {
		if !slices.Contains([]string{"", "0", "0s"}, f[1]) {
			args = append(args, f[:]...)
		}
	}
	return args
}

// clientSpecs returns the publishers and subscribers that run as processes, so
// that a new cluster has registrations to show. A publisher waits for longer than
// any start takes: one that gives up ends the start.
func clientSpecs(cfg Config) []spec {
	var specs []spec
	add := func(kind string, i int, args ...string) {
		specs = append(specs, spec{
			Name: kind + "-" + strconv.Itoa(i), Role: roleClient, Program: cfg.Tool,
			Args: append([]string{"--dir", cfg.Dir}, args...),
		})
	}
	for i := range cfg.Clients {
		add("publisher", i+1, "publish", "--hold", "--timeout", "2m", fmt.Sprintf("demo.echo=10.0.0.%d:8080", i+1))
	}
	for i := range cfg.Clients {
		add("subscriber", i+1, "subscribe", "demo.echo")
	}
	return specs
}

// detour calls Config.Detour, if it is set.
func (c Config) detour(name, listens string) (advertise, dialFrom string, err error) {
	if c.Detour == nil {
		return "", "", nil
	}
	return c.Detour(name, listens)
}

// ports picks loopback addresses for one cluster.
type ports struct {
	claims *claims
	fixed  map[string]int // by the name of the process; claimed
	next   int            // the port after which others are searched
}

// newPorts claims the ports that are known before: those of Config.Ports, or those
// that the folder's processes had, with which clients find them again, or the preferred
// ones. The preferred ones are used only if the whole cluster gets them: if some are in
// use by another cluster, a free one may be the port of a process of that cluster that
// was killed and will be started again. Other ports are searched below the range from
// which the kernel takes the ports of outgoing connections, because a
// connection could use the port of a node while it is down. The search begins
// at a random port, so that clusters that start at the same moment do not
// collide.
func newPorts(cfg *Config, claims *claims, before []record) (*ports, error) {
	p := &ports{claims: claims, next: 10000 + mathrand.IntN(20000)}
	cfg.Moved = ""
	switch {
	case cfg.Ports > 0:
		if taken := p.fix(layout(*cfg)); taken != "" {
			return nil, fmt.Errorf("%s: choose other ports than those from %d on with --ports", taken, cfg.Ports)
		}
	case len(before) > 0 && !cfg.AnyPorts:
		had, needed := map[string]int{}, layout(*cfg)
		p.next = 0
		for _, r := range before {
			if _, port, err := net.SplitHostPort(r.Address); err == nil && needed[r.Name] != 0 {
				had[r.Name], _ = strconv.Atoi(port) // it was made from a number
				p.next = max(p.next, had[r.Name])
			}
		}
		if taken := p.fix(had); taken != "" {
			return nil, fmt.Errorf("%s, and clients know the ports that the cluster in %s has had: stop what uses it, or choose others with --ports", taken, cfg.Dir)
		}
	case !cfg.AnyPorts:
		cfg.Moved = p.fix(layout(*cfg))
	}
	return p, nil
}

// layout returns a port for each process that listens, by its name.
func layout(cfg Config) map[string]int {
	out, used := map[string]int{}, map[int]bool{}
	add := func(role string, n int) {
		port := preferred[role]
		if cfg.Ports > 0 {
			port = cfg.Ports + max(port-preferredBase, 0)
		}
		for i := range n {
			for used[port] {
				port++
			}
			used[port] = true
			name := role
			if role != roleDB {
				name += "-" + strconv.Itoa(i+1)
			}
			out[name] = port
		}
	}
	if cfg.DB == Embedded {
		add(roleDB, 1)
	}
	add(roleMeta, cfg.Metas)
	add(roleData, cfg.Datas)
	add(roleSession, cfg.Sessions)
	return out
}

// fix claims a port for each of these processes, or none. It returns which one is
// taken, and by whom.
func (p *ports) fix(want map[string]int) (taken string) {
	names := slices.SortedFunc(maps.Keys(want), compareNames) // in a fixed order, so that of two supervisors at most one gives up
	for _, name := range names {
		if !p.claims.take(want[name]) {
			taken = fmt.Sprintf("port %d of %s is in use by %s", want[name], name, p.claims.holder(want[name]))
			p.claims.release()
			return taken
		}
	}
	p.fixed = want
	return ""
}

func (p *ports) take(name string) (string, error) {
	if port := p.fixed[name]; port != 0 {
		return loopback(port), nil
	}
	const tries = 2000
	for range tries {
		if p.next++; p.claims.take(p.next) {
			return loopback(p.next), nil
		}
	}
	return "", fmt.Errorf("no free port for %s (tried %d to %d)", name, p.next-tries, p.next)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func free(port int) bool {
	ln, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	ln.Close()
	return true
}

// TokensPath returns the path of a cluster's own tokens, one for each right.
func TokensPath(dir string) string { return filepath.Join(dir, "tokens") }

// AppTokenPath returns the path of the file that has only the token with the right
// publish, for applications.
func AppTokenPath(dir string) string { return filepath.Join(dir, "app-token") }

// tokenArgs returns the flags with the tokens of a node, and writes the files that
// they name.
func tokenArgs(cfg Config) ([]string, error) {
	switch {
	case cfg.Token != "":
		path := filepath.Join(cfg.Dir, "token")
		return []string{"--token-file", path}, writeAside(path, []byte(cfg.Token+"\n"))
	case cfg.OwnTokens:
		return []string{"--token-file", TokensPath(cfg.Dir)}, drawTokens(cfg.Dir)
	}
	return nil, nil
}

// drawTokens writes the tokens of a new cluster. Those that a folder has stay as
// they are, so that applications keep theirs over a restart.
func drawTokens(dir string) error {
	tokens, err := rights.ReadFile(TokensPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		text := "# The tokens of this cluster, RIGHT NAME TOKEN: see SECURITY.md. A change is noticed within seconds.\n"
		for r := rights.Operator; r >= rights.Read; r-- {
			text += fmt.Sprintln(r, "local", rand.Text())
		}
		if err := writeAside(TokensPath(dir), []byte(text)); err != nil {
			return err
		}
		tokens, err = rights.ReadFile(TokensPath(dir))
	}
	if err != nil {
		return fmt.Errorf("read the tokens of the cluster: %w", err)
	}
	return writeAside(AppTokenPath(dir), []byte(tokens.Token(rights.Publish, "local")+"\n"))
}

// operatorToken returns the token with which this cluster is operated, "" if it has
// none. The file is read each time, because a user may change it.
func (c Config) operatorToken(dir string) string {
	if c.Token != "" || !c.OwnTokens {
		return c.Token
	}
	tokens, err := rights.ReadFile(TokensPath(dir))
	if err != nil {
		return "" // the nodes refuse the request, and that is the error
	}
	return tokens.Strongest()
}
