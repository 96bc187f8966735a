package mysqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ory/dockertest/v3/docker"
)

// member runs the image's own entrypoint once the container is in both networks,
// and again when its server was killed and may start.
const memberScript = `while [ ! -e /tmp/go ]; do sleep 0.1; done
while docker-entrypoint.sh "$@"; [ $? -eq 137 ]; do
  while [ -e /tmp/hold ]; do sleep 0.1; done
done`

// galeraScript is memberScript for a Galera node. The first forms the cluster, once.
// A node that was killed looks up how far it came, so that it joins again with what
// it lacks.
const galeraScript = `while [ ! -e /tmp/go ]; do sleep 0.1; done
docker-entrypoint.sh "$@" $FIRST
while [ $? -eq 137 ]; do
  while [ -e /tmp/hold ]; do sleep 0.1; done
  position=$("$@" --user=mysql --wsrep-recover 2>&1 | sed -n 's/.*Recovered position: *//p' | tail -n 1)
  docker-entrypoint.sh "$@" --wsrep-start-position="$position"
done`

// galeraOptions make a MariaDB server a node of a cluster. A node that is silent for
// 2 s instead of 5 is suspected.
var galeraOptions = []string{
	"--innodb-log-file-size=8M", "--innodb-autoinc-lock-mode=2", "--bind-address=0.0.0.0",
	"--wsrep-on=ON", "--wsrep-provider=/usr/lib/galera/libgalera_smm.so", "--wsrep-cluster-name=conclave",
	"--wsrep-cluster-address=gcomm://db1,db2,db3", "--wsrep-sst-method=rsync",
	"--wsrep-provider-options=gcache.size=16M;evs.keepalive_period=PT0.5S;evs.suspect_timeout=PT2S;evs.inactive_timeout=PT6S",
}

// unreachableTimeout is after how many seconds a member that has lost the majority
// leaves the group.
const unreachableTimeout = 5

// groupOptions make a MySQL server a possible member of a group. A member that is
// suspected is expelled at once, so that a failover takes about 6 s instead of 11.
var groupOptions = []string{
	"--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--plugin-load-add=group_replication.so",
	"--loose-group-replication-group-name=c0c1a7e0-0000-4000-8000-000000000000",
	"--loose-group-replication-start-on-boot=OFF", "--loose-group-replication-recovery-get-public-key=ON",
	"--loose-group-replication-group-seeds=db1:33061,db2:33061,db3:33061",
	"--loose-group-replication-member-expel-timeout=0", fmt.Sprintf("--loose-group-replication-unreachable-majority-timeout=%d", unreachableTimeout),
	"--loose-group-replication-autorejoin-tries=0", "--loose-group-replication-exit-state-action=READ_ONLY",
}

// The statements that make the servers a group: on each, on the first, on the others.
var (
	groupEach = []string{
		"SET SQL_LOG_BIN = 0",
		"CREATE USER replica@'%' IDENTIFIED BY 'replica'",
		"GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO replica@'%'",
		"SET SQL_LOG_BIN = 1",
		"RESET BINARY LOGS AND GTIDS",
		"CHANGE REPLICATION SOURCE TO SOURCE_USER = 'replica', SOURCE_PASSWORD = 'replica' FOR CHANNEL 'group_replication_recovery'",
	}
	groupFirst = []string{"SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group = OFF"}
	groupOther = []string{"START GROUP_REPLICATION"}
)

// startReplicas starts three servers and makes them a group.
func startReplicas(kind Kind) (r *Replicas, err error) {
	server := map[Kind]Kind{GroupReplication: MySQL, Galera: MariaDB}[kind]
	first, err := engine(server)
	if err != nil {
		return nil, err
	}
	network, err := first.pool.Client.CreateNetwork(docker.CreateNetworkOptions{
		Name: fmt.Sprintf("conclave-%s-%d", kind, os.Getpid()), Driver: "bridge", Labels: map[string]string{"conclave": "mysqltest"}})
	if err != nil {
		return nil, fmt.Errorf("create a network: %w", err)
	}
	r = &Replicas{Kind: kind, network: network.ID}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.remove())
		}
	}()
	for i := range r.Members {
		m := &Replica{Server: &Server{Kind: kind, container: &container{pool: first.pool, image: first.image}}, name: fmt.Sprintf("db%d", i+1)}
		script, forms := memberScript, "FIRST="
		var own []string
		switch kind {
		case GroupReplication:
			own = append(slices.Clone(groupOptions), fmt.Sprintf("--server-id=%d", i+1), "--report-host="+m.name,
				"--loose-group-replication-local-address="+m.name+":33061")
		case Galera:
			script = galeraScript
			own = append(slices.Clone(galeraOptions), "--wsrep-node-name="+m.name, "--wsrep-node-address="+m.name)
			if i == 0 {
				forms += "--wsrep-new-cluster"
			}
		}
		if err := m.container.start(kind, script, []string{forms}, slices.Concat([]string{"mysqld"}, options[server], own)); err != nil {
			return r, err
		}
		m.Addr = m.container.addr
		r.Members[i] = m
		if err := errors.Join(m.container.join(r.network, m.name), m.container.sh("touch /tmp/go")); err != nil {
			return r, err
		}
	}
	for _, m := range r.Members {
		if err := m.container.connect(); err != nil {
			return r, err
		}
		m.root = m.container.root
	}
	if kind == Galera {
		return r, nil
	}
	for _, m := range r.Members {
		if err := m.session(groupEach); err != nil {
			return r, err
		}
	}
	for i, m := range r.Members {
		statements := groupOther
		if i == 0 {
			statements = groupFirst
		}
		if err := m.session(statements); err != nil {
			return r, err
		}
	}
	return r, nil
}

// session runs statements on one connection.
func (m *Replica) session(statements []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := m.root.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s on %s: %w", statement, m.name, err)
		}
	}
	return nil
}

// join connects the container to a network, under a name.
func (c *container) join(network, name string) error {
	return c.pool.Client.ConnectNetwork(network, docker.NetworkConnectionOptions{
		Container: c.res.Container.ID, EndpointConfig: &docker.EndpointConfig{Aliases: []string{name}}})
}

// leave takes the container out of a network.
func (c *container) leave(network string) error {
	return c.pool.Client.DisconnectNetwork(network, docker.NetworkConnectionOptions{Container: c.res.Container.ID, Force: true})
}

// remove removes the servers and their network.
func (r *Replicas) remove() error {
	var errs []error
	var client *docker.Client
	for _, m := range r.Members {
		if m == nil || m.container.res == nil {
			continue
		}
		client = m.container.pool.Client
		errs = append(errs, m.container.remove())
	}
	if client != nil && r.network != "" {
		errs = append(errs, client.RemoveNetwork(r.network))
		client.HTTPClient.CloseIdleConnections()
	}
	return errors.Join(errs...)
}
