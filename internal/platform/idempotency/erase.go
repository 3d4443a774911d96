package idempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"lksms/gen/idempotencyq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// erasePortion is the maximum number of responses that one transaction reads.
const erasePortion = 1000

// Erase removes a person and the recent tasks of the person from the stored responses.
func (s *Service) Erase(ctx context.Context, p *erase.Person, run erase.Runner) error {
	next := idempotencyq.ErasureAnswersParams{CompanyID: p.CompanyID, Texts: textsOf(p), MaxRows: erasePortion}
	for n := erasePortion; n == erasePortion; {
		err := run(ctx, func(ctx context.Context) (erase.Counts, error) {
			rows, err := s.q.ErasureAnswers(ctx, next)
			if n = len(rows); err != nil || n == 0 {
				return nil, err
			}
			last := rows[n-1] // not all rows are changed, so the next search begins after the last row
			next.AfterUsername, next.AfterOperation, next.AfterKey = last.Username, last.Operation, last.Key
			erased, err := s.eraseAll(ctx, p, rows)
			return erase.Counts{erase.Answers: erased}, err
		})
		if err != nil {
			return postgres.Wrap("erase answers", err, nil)
		}
	}
	return nil
}

func (s *Service) eraseAll(ctx context.Context, p *erase.Person, rows []idempotencyq.ErasureAnswersRow) (erased int64, err error) {
	for _, row := range rows {
		text, isChanged, err := scrubbed(p, row)
		if err != nil {
			return erased, err
		}
		if !isChanged {
			continue
		}
		erased++
		if err := s.q.ErasureAnswer(ctx, idempotencyq.ErasureAnswerParams{
			Response: text, Username: row.Username, Operation: row.Operation, Key: row.Key,
		}); err != nil {
			return erased, err
		}
	}
	return erased, nil
}

// textsOf returns the texts that a response about the person can contain.
func textsOf(p *erase.Person) []string {
	texts := slices.Concat(p.Recent, p.Recipients, p.AtHome)
	for _, id := range p.UserIDs {
		texts = append(texts, strconv.Quote(id))
	}
	return texts
}

// names are the members of responses that contain the recipient or the text of a message.
var names = []string{"phone_number", "recipient", "user_id", "content", "final_content"}

// scrubbed returns a response without the person: objects that contain the person, or a task to the person, lose their recipient and text.
func scrubbed(p *erase.Person, answer idempotencyq.ErasureAnswersRow) (text []byte, isChanged bool, err error) {
	var all any
	d := json.NewDecoder(bytes.NewReader(answer.Response))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	if !scrub(p, answer, all) {
		return nil, false, nil
	}
	text, err = json.Marshal(all)
	if err != nil {
		return nil, false, fmt.Errorf("write answer: %w", err)
	}
	return text, true, nil
}

func scrub(p *erase.Person, answer idempotencyq.ErasureAnswersRow, value any) (isChanged bool) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			isChanged = scrub(p, answer, one) || isChanged
		}
	case map[string]any:
		for _, one := range value {
			isChanged = scrub(p, answer, one) || isChanged
		}
		if !containsPerson(p, answer, value) {
			return isChanged
		}
		for _, name := range names {
			if was, is := value[name].(string); is && was != result.Erased {
				value[name], isChanged = result.Erased, true
			}
		}
	}
	return isChanged
}

// containsPerson reports whether an object of a response contains the person, or a task to the person. Responses to administrators can be about any company.
func containsPerson(p *erase.Person, answer idempotencyq.ErasureAnswersRow, object map[string]any) bool {
	is := func(name string, test func(string) bool) bool {
		text, isText := object[name].(string)
		return isText && test(text)
	}
	if is("task_id", func(id string) bool { return slices.Contains(p.Recent, id) }) {
		return true
	}
	if company, says := object["company_no"]; says && company != answer.CompanyNo || !says && !answer.IsOwn {
		return false
	}
	return is("user_id", func(id string) bool { return slices.Contains(p.UserIDs, id) }) || is("phone_number", p.Has) || is("recipient", p.Has)
}
