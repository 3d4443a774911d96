import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/** Stores an order and its message in one transaction of PostgreSQL. Usage: java -cp postgresql.jar Submit.java URL USER PASSWORD ORDER PHONE TEXT */
public class Submit {
    static String submit(Connection connection, String no, String phone, String text) throws SQLException {
        String taskId;
        connection.setAutoCommit(false);
        try (var order = connection.prepareStatement("INSERT INTO shop.orders (no, phone) VALUES (?, ?)");
             var message = connection.prepareStatement("SELECT lksms.enqueue(?, ?, dedup_key => ?)")) {
            order.setString(1, no);
            order.setString(2, phone);
            order.executeUpdate();
            message.setString(1, phone);
            message.setString(2, text);
            message.setString(3, "order-" + no);
            try (var result = message.executeQuery()) {
                result.next();
                taskId = result.getString(1);
            }
            connection.commit();
        } catch (PSQLException e) {
            connection.rollback();
            ServerErrorMessage refused = e.getServerErrorMessage();
            if (refused != null && refused.getSQLState().startsWith("LK")) {
                System.err.printf("%s is wrong: %s%n", refused.getColumn(), refused.getMessage());
            }
            throw e;
        }
        return taskId;
    }

    public static void main(String[] args) throws SQLException {
        try (Connection connection = DriverManager.getConnection(args[0], args[1], args[2])) {
            System.out.println(submit(connection, args[3], args[4], args[5]));
        }
    }
}
