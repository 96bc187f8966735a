package sql

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The states are those that MySQL 9.7 and MariaDB 10.11 report.
func TestKindOfWait_NamesTheServerBeforeAClient(t *testing.T) {
	update := "UPDATE distribute_lock SET beat = 1"
	for state, want := range map[string]BlockKind{
		"Updating":                               BlockRow,
		"Waiting for table metadata lock":        BlockTable,
		"Waiting for global read lock":           BlockBackup,
		"Waiting for backup lock":                BlockBackup,
		"Waiting for someone to free space":      BlockServer,
		"Waiting for disk space":                 BlockServer,
		"Waiting for semi-sync ACK from replica": BlockServer,
	} {
		assert.Equal(t, want, kindOfWait(state, update), state)
	}
	assert.Empty(t, kindOfWait("Statistics", "SELECT 1"))
}

func TestSchemaFiles_NumberedWithoutGaps(t *testing.T) {
	for i, m := range migrations() {
		assert.Equal(t, i, m.version, m.path)
	}
	assert.Equal(t, len(migrations())-1, SchemaVersion())
}
