import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import java.sql.Timestamp;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** The baseline: each partition is a JMS receive loop in the executor's JVM, acknowledged every so many messages. */
public final class JmsReceive implements Iterator<Row> {
    private static final String THREE = "body binary, messageId string, timestamp timestamp";
    private static final String ALL = "messageId string, address string, routingType string, durable boolean,"
        + " priority int, timestamp timestamp, expiration timestamp, redelivered boolean, deliveryCount int,"
        + " correlationId string, replyTo string, type string, groupId string, groupSequence int, user string,"
        + " duplicateId string, properties map<string,string>, propertyTypes map<string,string>, bodyType string,"
        + " body binary, bodyText string";
    private static final int ACKNOWLEDGED_AT_ONCE = 10_000;
    private static final long TIMEOUT_MS = 30_000;
    private final Connection connection;
    private final MessageConsumer consumer;
    private final boolean all;
    private long left;

    private JmsReceive(String url, String queue, long count, boolean all) throws JMSException {
        this.left = count;
        this.all = all;
        connection = new ActiveMQConnectionFactory(url).createConnection();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        consumer = session.createConsumer(session.createQueue(queue));
        connection.start();
    }

    /** So many messages for each of so many partitions, which have to be there. */
    public static Dataset<Row> rows(SparkSession spark, String url, String queue, int parts, long count, boolean all) {
        MapPartitionsFunction<Long, Row> receive = numbers -> numbers.hasNext()
            ? new JmsReceive(url, queue, count / parts, all) : Collections.emptyIterator();
        StructType schema = StructType.fromDDL(all ? ALL : THREE);
        return spark.range(0, parts, 1, parts).as(Encoders.LONG()).mapPartitions(receive, Encoders.row(schema));
    }

    @Override
    public boolean hasNext() {
        return left > 0;
    }

    @Override
    public Row next() {
        try {
            Message message = consumer.receive(TIMEOUT_MS);
            Row row = all ? everything(message) : RowFactory.create(
                body(message), message.getJMSMessageID(), new Timestamp(message.getJMSTimestamp()));
            left -= 1;
            if (left % ACKNOWLEDGED_AT_ONCE == 0) {
                message.acknowledge();
            }
            if (left == 0) {
                connection.close();
            }
            return row;
        } catch (JMSException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] body(Message message) throws JMSException {
        BytesMessage bytes = (BytesMessage) message;
        byte[] data = new byte[(int) bytes.getBodyLength()];
        bytes.readBytes(data);
        return data;
    }

    private static Row everything(Message message) throws JMSException {
        Map<String, String> values = new HashMap<>();
        Map<String, String> types = new HashMap<>();
        for (Iterator<?> names = message.getPropertyNames().asIterator(); names.hasNext();) {
            String name = (String) names.next();
            Object value = message.getObjectProperty(name);
            values.put(name, String.valueOf(value));
            types.put(name, value.getClass().getSimpleName().toLowerCase());
        }
        Queue replyTo = (Queue) message.getJMSReplyTo();
        long expiration = message.getJMSExpiration();
        return RowFactory.create(message.getJMSMessageID(), ((Queue) message.getJMSDestination()).getQueueName(),
            "ANYCAST", message.getJMSDeliveryMode() == 2, message.getJMSPriority(),
            new Timestamp(message.getJMSTimestamp()), expiration == 0 ? null : new Timestamp(expiration),
            message.getJMSRedelivered(), message.getIntProperty("JMSXDeliveryCount"), message.getJMSCorrelationID(),
            replyTo == null ? null : replyTo.getQueueName(), message.getJMSType(),
            message.getStringProperty("JMSXGroupID"), null, message.getStringProperty("JMSXUserID"),
            message.getStringProperty("_AMQ_DUPL_ID"), CollectionConverters.asScala(values),
            CollectionConverters.asScala(types), "bytes", body(message), null);
    }
}
