package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	api "lksms/gen/client"
)

// slowestUpload is the lowest speed of an upload that the server accepts, in bytes per second.
const slowestUpload = 64 << 10

// List is the file of a batch. The file is CSV or XLSX. If its name ends in .json, it contains an array of objects. Content can be an *os.File or a
// *bytes.Reader.
type List struct {
	Name    string
	Content io.ReaderAt // each attempt reads the content from its beginning
	Size    int64
}

// CreateBatch uploads a list. The server checks its rows in the background: see [Client.WaitForCheck]. The server sends nothing before [Client.ConfirmBatch],
// unless form.AutoConfirm is set. list is nil for a batch of tags.
func (c *Client) CreateBatch(ctx context.Context, form BatchForm, list *List, more ...CallOption) (*BatchCreated, error) {
	if form.File != nil || form.Rows != nil {
		return nil, errors.New("give the list of the batch as the argument list, not in its form")
	}
	head, tail, media, err := encodeForm(form, list)
	if err != nil {
		return nil, err
	}
	key := idempotencyKey(more)
	params := &api.CreateBatchParams{IdempotencyKey: &key}
	size := int64(len(head) + len(tail))
	body := func() io.Reader { return io.MultiReader(bytes.NewReader(head), bytes.NewReader(tail)) }
	if list != nil {
		size += list.Size
		// Each attempt gets a separate section reader, because a failed attempt can still read its body when the next attempt begins.
		body = func() io.Reader {
			return io.MultiReader(bytes.NewReader(head), io.NewSectionReader(list.Content, 0, list.Size), bytes.NewReader(tail))
		}
	}
	// Add 15 seconds to the default time limit of 30 seconds: after the body has arrived, the server can take 45 seconds.
	upload := time.Duration(size/slowestUpload)*time.Second + 15*time.Second
	return create[*BatchCreated](ctx, c, key, upload, func(ctx context.Context) (*http.Response, error) {
		return c.api.CreateBatchWithBody(ctx, params, media, body(), func(_ context.Context, r *http.Request) error {
			r.ContentLength = size
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body()), nil }
			return nil
		})
	})
}

// CreateBatchFromFile works like CreateBatch with the file at path.
func (c *Client) CreateBatchFromFile(ctx context.Context, form BatchForm, path string, more ...CallOption) (*BatchCreated, error) {
	file, err := os.Open(path) //nolint:gosec // the caller chooses the file
	if err != nil {
		return nil, fmt.Errorf("open the list: %w", err)
	}
	defer file.Close() //nolint:errcheck // the file was only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("check the list: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file: store the list in a regular file first", path)
	}
	return c.CreateBatch(ctx, form, &List{Name: filepath.Base(path), Content: file, Size: info.Size()}, more...)
}

// encodeForm returns the parts of the body before and after the content of the list, and the media type.
func encodeForm(form BatchForm, list *List) (head, tail []byte, media string, err error) {
	object, err := json.Marshal(form)
	if err != nil {
		return nil, nil, "", fmt.Errorf("encode the batch: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, nil, "", fmt.Errorf("encode the batch: %w", err)
	}
	var body bytes.Buffer
	writer := multipart.NewWriter(&body) // writing to a buffer never fails
	for name, value := range fields {
		items := []json.RawMessage{value}
		if value[0] == '[' { // a list becomes a repeated field
			if err := json.Unmarshal(value, &items); err != nil {
				return nil, nil, "", fmt.Errorf("encode the batch: %w", err)
			}
		}
		for _, item := range items {
			text := string(item)
			if item[0] == '"' {
				if err := json.Unmarshal(item, &text); err != nil {
					return nil, nil, "", fmt.Errorf("encode the batch: %w", err)
				}
			}
			_ = writer.WriteField(name, text)
		}
	}
	if list != nil {
		field := "file"
		if strings.EqualFold(filepath.Ext(list.Name), ".json") {
			field = "rows"
		}
		_, _ = writer.CreateFormFile(field, list.Name)
	}
	before := body.Len()
	_ = writer.Close()
	return body.Bytes()[:before], body.Bytes()[before:], writer.FormDataContentType(), nil
}

// Batch returns a batch with its exact counts and its expected end.
func (c *Client) Batch(ctx context.Context, batchID int64) (*Batch, error) {
	return c.batch(ctx, repeatable, func(ctx context.Context) (*http.Response, error) { return c.api.GetBatch(ctx, batchID) })
}

// ConfirmBatch starts to send a checked batch. A batch that is confirmed twice is sent once.
func (c *Client) ConfirmBatch(ctx context.Context, batchID int64) (*Batch, error) {
	return c.batch(ctx, repeatable, func(ctx context.Context) (*http.Response, error) { return c.api.ConfirmBatch(ctx, batchID) })
}

// PauseBatch holds the waiting messages of a batch.
func (c *Client) PauseBatch(ctx context.Context, batchID int64) (*Batch, error) {
	return c.batch(ctx, once, func(ctx context.Context) (*http.Response, error) { return c.api.PauseBatch(ctx, batchID) })
}

// ResumeBatch resumes a paused batch.
func (c *Client) ResumeBatch(ctx context.Context, batchID int64) (*Batch, error) {
	return c.batch(ctx, once, func(ctx context.Context) (*http.Response, error) { return c.api.ResumeBatch(ctx, batchID) })
}

// CancelBatch cancels a batch. Its waiting messages are not sent.
func (c *Client) CancelBatch(ctx context.Context, batchID int64) (*Batch, error) {
	return c.batch(ctx, once, func(ctx context.Context) (*http.Response, error) { return c.api.CancelBatch(ctx, batchID) })
}

func (c *Client) batch(ctx context.Context, s safety, send func(context.Context) (*http.Response, error)) (*Batch, error) {
	return call[*Batch](ctx, c, s, 0, send)
}

// RequeueBatch sends the failed messages of a batch again, in the background.
func (c *Client) RequeueBatch(ctx context.Context, batchID int64) (*BatchRequeued, error) {
	return call[*BatchRequeued](ctx, c, once, 15*time.Second, func(ctx context.Context) (*http.Response, error) {
		return c.api.RequeueBatch(ctx, batchID)
	})
}

// PreviewBatch returns the message of the row with this number in the list. Row 0 means the first valid row.
func (c *Client) PreviewBatch(ctx context.Context, batchID, row int64) (*BatchPreview, error) {
	params := &api.PreviewBatchParams{}
	if row != 0 {
		params.Row = &row
	}
	return call[*BatchPreview](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.PreviewBatch(ctx, batchID, params)
	})
}

// Batches lists batches, newest first. An error ends the loop.
func (c *Client) Batches(ctx context.Context, filter BatchFilter) iter.Seq2[Batch, error] {
	return pages(func(cursor *string) ([]Batch, *string, error) {
		filter.Cursor = cursor
		page, err := call[api.BatchPage](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
			return c.api.ListBatches(ctx, &filter)
		})
		return page.Items, page.NextCursor, err
	}, filter.Cursor)
}

// BatchRows lists the rows of a batch in the order of the list. With status it lists only rows with this status. An error ends the loop.
func (c *Client) BatchRows(ctx context.Context, batchID int64, status *BatchRowStatus) iter.Seq2[BatchRow, error] {
	return pages(func(cursor *string) ([]BatchRow, *string, error) {
		page, err := call[api.BatchRowPage](ctx, c, repeatable, 0, func(ctx context.Context) (*http.Response, error) {
			return c.api.ListBatchRows(ctx, batchID, &api.ListBatchRowsParams{Status: status, Cursor: cursor, Limit: new(100)})
		})
		return page.Items, page.NextCursor, err
	}, nil)
}

// WaitForCheck waits until the rows of a batch are checked, and returns the batch. It calls seen for each state before. It continues after restarts of the
// server under the same condition as [Client.WaitForTask].
func (c *Client) WaitForCheck(ctx context.Context, batchID int64, seen func(*Batch)) (*Batch, error) {
	return c.waitForBatch(ctx, batchID, seen, func(b *Batch) bool { return b.Status != api.BatchChecking })
}

// WaitForBatch waits until a batch is finished or cancelled, and returns the batch. It calls seen for each state before. It continues after restarts of the
// server under the same condition as [Client.WaitForTask].
func (c *Client) WaitForBatch(ctx context.Context, batchID int64, seen func(*Batch)) (*Batch, error) {
	return c.waitForBatch(ctx, batchID, seen, func(b *Batch) bool {
		return b.Status == api.BatchFinished || b.Status == api.BatchCancelled
	})
}

func (c *Client) waitForBatch(ctx context.Context, batchID int64, seen func(*Batch), isEnd func(*Batch) bool) (*Batch, error) {
	return follow(ctx, c, func() (*Batch, error) { return c.Batch(ctx, batchID) }, func(b *Batch) bool {
		if isEnd(b) {
			return true
		}
		if seen != nil {
			seen(b)
		}
		return false
	})
}
