package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lksms/client"
	"lksms/internal/platform/config"
)

const (
	spoolSuffix   = ".json"
	refusedSuffix = ".refused"
	spoolRequest  = 100     // maximum number of messages of one request
	spoolBytes    = 4 << 20 // a request ends with the message that exceeds this size
)

// runSpool stores m, which can be nil, in the folder of --spool, and then hands over all messages of the folder, oldest first. Several runs can hand over the
// same messages at the same time: the server stores each message once.
func (c *receivedAddCmd) runSpool(ctx context.Context, env config.Remote, m *client.ReceivedInput) error {
	if m != nil {
		if err := spoolMessage(c.Spool, m); err != nil {
			return err
		}
	}
	caller, ctx, cancel, err := c.Remote.open(ctx, env)
	if err != nil {
		return err
	}
	defer cancel()
	names, err := spooled(c.Spool)
	if err != nil {
		return err
	}
	handed, err := c.handOver(ctx, caller, names)
	if err != nil {
		return err
	}
	return caller.show(map[string]int{"handed_over": handed}, func() record { return record{{"handed over", strconv.Itoa(handed)}} })
}

// handOver hands over the messages of files, and returns the number of accepted messages.
func (c *receivedAddCmd) handOver(ctx context.Context, caller *caller, paths []string) (accepted int, err error) {
	if len(paths) == 0 {
		return 0, nil
	}
	app, err := c.Find(ctx, caller.Client)
	var refused error
	for len(paths) > 0 && err == nil {
		var p spoolPortion
		if p, err = readPortion(paths); err == nil {
			err = caller.handOver(ctx, app, &p)
		}
		if err == nil {
			paths, accepted, refused = paths[p.read:], accepted+p.accepted, cmp.Or(p.refused, refused)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lksms: %d messages wait in %s\n", len(paths), c.Spool)
		return accepted, InTime(ctx, err)
	}
	return accepted, refused
}

// spoolMessage stores a message in a folder. After it returned, the message survives a crash of the machine.
func spoolMessage(folder string, m *client.ReceivedInput) error {
	content, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	name := filepath.Join(folder, fmt.Sprintf("%019d-%s", time.Now().UnixNano(), rand.Text()))
	if err := writeSynced(name+".tmp", content); err != nil {
		return fmt.Errorf("store the message: %w", err)
	}
	if err := os.Rename(name+".tmp", name+spoolSuffix); err != nil {
		return fmt.Errorf("store the message: %w", err)
	}
	dir, err := os.Open(folder) //nolint:gosec // the operator chooses the folder
	if err != nil {
		return fmt.Errorf("store the message: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeSynced(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator chooses the folder
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// spooled returns the paths of the messages of a folder, oldest first.
func spooled(folder string) (paths []string, err error) {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("read the messages: %w", err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), spoolSuffix) {
			paths = append(paths, filepath.Join(folder, entry.Name()))
		}
	}
	return paths, nil
}

// spoolPortion contains the messages of one request.
type spoolPortion struct {
	read     int // number of paths that were read
	messages []client.ReceivedInput
	files    []string // the file of each message
	accepted int
	refused  error // the error of the last message that was refused; its files were renamed
}

// readPortion reads the messages of the first paths. A message without an id and a time gets the name of its file as its id, so that it is stored once.
func readPortion(paths []string) (p spoolPortion, err error) {
	for size := 0; p.read < len(paths) && len(p.messages) < spoolRequest && size < spoolBytes; p.read++ {
		path := paths[p.read]
		content, err := os.ReadFile(path) //nolint:gosec // the operator chooses the folder
		if errors.Is(err, fs.ErrNotExist) {
			continue // another run handed over the message
		}
		if err != nil {
			return p, fmt.Errorf("read a message: %w", err)
		}
		var m client.ReceivedInput
		if err := json.Unmarshal(content, &m); err != nil {
			if err := p.setAside(path, fmt.Errorf("the file is no message: %w", err)); err != nil {
				return p, err
			}
			continue
		}
		if m.ReceivedAt == nil && m.MessageNo == nil {
			m.MessageNo = new(filepath.Base(path))
		}
		p.messages, p.files, size = append(p.messages, m), append(p.files, path), size+len(content)
	}
	return p, nil
}

// handOver posts the messages of a portion, and deletes their files. It renames the files of refused messages, so that they do not stop other messages.
func (c *caller) handOver(ctx context.Context, app string, p *spoolPortion) error {
	if len(p.messages) == 0 {
		return nil
	}
	stored, err := c.Receive(ctx, app, p.messages)
	if err != nil {
		return err
	}
	if len(stored.Items) != len(p.files) {
		return fmt.Errorf("the server returned %d outcomes for %d messages", len(stored.Items), len(p.files))
	}
	for i, one := range stored.Items {
		if one.Error != nil {
			if err := p.setAside(p.files[i], refusedItem(one)); err != nil {
				return err
			}
			continue
		}
		p.accepted++
		if err := os.Remove(p.files[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete a message: %w", err)
		}
	}
	return nil
}

// setAside renames the file of a refused message, and prints the refusal.
func (p *spoolPortion) setAside(path string, refusal error) error {
	p.refused = ShownError{refusal}
	fmt.Fprintf(os.Stderr, "lksms: %s: %s\n", filepath.Base(path)+refusedSuffix, ExplainError(refusal))
	if err := os.Rename(path, path+refusedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rename a message: %w", err)
	}
	return nil
}
